#include "plan/passes/paging.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "base/error.h"

namespace plimsoll {

std::vector<std::size_t> streamed_inputs(const Graph& graph, const Node& node) {
  std::vector<std::size_t> inputs;
  if (node.op->transfer != Transfer::none) return inputs;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (graph.values[node.inputs[i]].tier != 0) inputs.push_back(i);
  }
  return inputs;
}

PerValue<int> blocks_of_values(const Graph& graph, const std::vector<GraphBlock>& blocks) {
  constexpr int kSmallestPart = 32, kNone = -1, kSeveral = -2;
  PerValue<int> block_of(graph.values.size(), kNone);
  std::vector<std::int64_t> bytes(blocks.size(), 0);
  PerNode<int> block_of_node(graph.nodes.size(), kNone);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    for (const NodeId id : blocks[i].nodes) block_of_node[id] = static_cast<int>(i);
  }
  for (const NodeId id : graph.section_order(Section::micro)) {
    if (graph.nodes[id].backward) continue;
    for (const ValueId input : graph.nodes[id].inputs) {
      if (graph.values[input].role != Role::parameter) continue;
      const int reader = block_of_node[id];
      int& block = block_of[input];
      if (block == kNone && reader != kNone) {
        block = reader;
        bytes[static_cast<std::size_t>(block)] += graph.values[input].bytes().n;
      } else if (block != reader || reader == kNone) {
        block = kSeveral;
      }
    }
  }
  for (std::size_t i = 0; i < block_of.size(); ++i) {
    int& block = block_of[ValueId{i}];
    if (block < 0 || graph.values[ValueId{i}].bytes().n * kSmallestPart < bytes[static_cast<std::size_t>(block)]) block = kNone;
  }
  for (const NodeId id : graph.section_order(Section::update)) {
    for (const NodeAlias& alias : aliases_of(graph, graph.nodes[id])) {
      const int block = alias.kind == AliasKind::updates ? block_of[origin_of(graph, alias.input)] : kNone;
      for (const ValueId input : graph.nodes[id].inputs) {
        if (block >= 0 && graph.values[input].role == Role::accumulator) block_of[origin_of(graph, input)] = block;
      }
    }
  }
  return block_of;
}

namespace {

bool rests_on_disk(const Graph& graph, ValueId id, const PerValue<int>& block_of, const Paging& paging) {
  const ValueId rests = origin_of(graph, id);
  switch (graph.values[rests].role) {
    case Role::optimizer_state: return true;
    case Role::parameter: return paging.parameters && block_of[rests] >= 0;
    case Role::accumulator: return paging.accumulators && block_of[rests] >= 0;
    default: return false;
  }
}

// What the node reads in ranges: all of one type, which is that of the whole.
void check_streamed(const Graph& graph, const Node& node, const std::vector<std::size_t>& streamed) {
  ensure(node.op->of_range != nullptr, "paging", "an op that cannot act on a range reads what rests on the disk");
  const ValueType& whole = graph.values[node.inputs[0]].type;
  for (const std::size_t input : streamed) {
    ensure(graph.values[node.inputs[input]].type == whole && whole.dtype == DType::f32, "paging",
           "what is streamed is not fp32 of its parameter's shape");
  }
}

}  // namespace

std::int64_t page_elements(const Graph& graph, const Paging& paging) {
  Bytes largest;
  for (const Value& value : graph.values) {
    if (value.persistent() && value.tier != 0) largest = std::max(largest, align_up(value.bytes(), kStoredAlignment));
  }
  return std::min(paging.page, largest.n / static_cast<std::int64_t>(sizeof(float)));
}

Graph apply_paging(const Graph& graph, const std::vector<GraphBlock>& blocks, const Paging& paging) {
  Graph result = graph;
  if (!paging.active()) return result;
  const PerValue<int> block_of = blocks_of_values(graph, blocks);
  for (std::size_t i = 0; i < result.values.size(); ++i) {
    Value& value = result.values[ValueId{i}];
    const bool resting = value.persistent() || value.version_of.valid();
    if (resting && rests_on_disk(graph, ValueId{i}, block_of, paging)) value.tier = 1;
  }
  std::size_t states = 0;
  std::vector<NodeId> streaming;
  for (const NodeId id : result.section_order(Section::update)) {
    const std::vector<std::size_t> streamed = streamed_inputs(result, result.nodes[id]);
    if (streamed.empty()) continue;
    check_streamed(result, result.nodes[id], streamed);
    states = std::max(states, streamed.size());
    streaming.push_back(id);
  }
  if (streaming.empty()) return result;
  Value pages;
  pages.name = "update.pages";
  pages.type = {DType::f32, Shape{paging.slots * static_cast<std::int64_t>(states) * page_elements(result, paging)}};
  pages.role = Role::pages;
  pages.section = Section::update;
  const ValueId room = result.values.push_back(std::move(pages));
  for (const NodeId id : streaming) result.nodes[id].pages = room;
  return result;
}

std::vector<ReserveItem> paging_reserve(const Graph& graph, const Paging& paging, const Machine& machine) {
  // A ring of eight entries is two pages; touching liburing brings in 64 KiB of it.
  constexpr Bytes kThreadState{64 << 10}, kPieceState{2 << 10}, kCopyState{640}, kRing{(64 << 10) + 2 * kPage.n};
  const bool disk = machine.tiers.size() < 2 || machine.tiers[1].name == "disk";
  if (!paging.active() || !disk) return {};
  const bool ring = transfers_of(machine) == TransferEngine::io_uring;
  const std::int64_t page = page_elements(graph, paging);
  const auto pieces_of = [&](ValueId value) { return ceil_div(graph.values[value].type.shape.elements(), page); };
  std::int64_t pieces = 0, copies = 0;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[ValueId{i}];
    if (value.persistent() && value.tier != 0) pieces += pieces_of(ValueId{i});
  }
  for (const Node& node : graph.nodes) {
    if (node.op->transfer != Transfer::none) copies += pieces_of(node.inputs[0]);
  }
  std::vector<ReserveItem> items{{"transfers: staging", kTransferStaging * (kTransfers + 1), "counted"},
                                 {"transfers: pieces", kPieceState * pieces + kCopyState * copies, "counted"},
                                 {"transfers: threads", kThreadState * (ring ? 1 : kTransfers), "bound"}};
  if (ring) items.push_back({"transfers: io_uring", kRing, "bound"});
  return items;
}

StoredLayout stored_layout(const Graph& graph) {
  StoredLayout layout;
  layout.offsets.resize(graph.values.size(), Bytes{-1});
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[ValueId{i}];
    if (!value.persistent() || value.tier == 0) continue;
    layout.offsets[ValueId{i}] = layout.end;
    layout.end += align_up(value.bytes(), kStoredAlignment);
  }
  return layout;
}

}  // namespace plimsoll
