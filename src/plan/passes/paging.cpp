#include "plan/passes/paging.h"

#include <algorithm>

#include "base/error.h"

namespace plimsoll {

std::vector<std::size_t> streamed_inputs(const Graph& graph, const Node& node) {
  std::vector<std::size_t> inputs;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (graph.values[node.inputs[i]].tier != 0) inputs.push_back(i);
  }
  return inputs;
}

Graph apply_paging(const Graph& graph, const Paging& paging) {
  Graph result = graph;
  if (!paging.active()) return result;
  for (std::size_t i = 0; i < result.values.size(); ++i) {
    Value& value = result.values[ValueId{i}];
    const bool version = value.version_of.valid() && graph.values[value.version_of].role == Role::optimizer_state;
    if (value.role == Role::optimizer_state || version) value.tier = 1;
  }
  std::size_t states = 0;
  std::int64_t largest = 0;
  std::vector<NodeId> updates;
  for (const NodeId id : result.section_order(Section::update)) {
    const std::size_t streamed = streamed_inputs(result, result.nodes[id]).size();
    if (streamed == 0) continue;
    ensure(result.nodes[id].op->of_range != nullptr, "paging", "an op that cannot act on a range reads optimizer state");
    const ValueType& whole = result.values[result.nodes[id].inputs[0]].type;
    for (const std::size_t input : streamed_inputs(result, result.nodes[id])) {
      ensure(result.values[result.nodes[id].inputs[input]].type == whole && whole.dtype == DType::f32, "paging",
             "streamed state is not fp32 of its parameter's shape");
    }
    states = std::max(states, streamed);
    largest = std::max(largest, result.values[result.nodes[id].inputs[0]].type.shape.elements());
    updates.push_back(id);
  }
  if (updates.empty()) return result;
  const std::int64_t page = std::min(paging.page, align_up(Bytes{largest * 4}, kStoredAlignment).n / 4);
  Value pages;
  pages.name = "update.pages";
  pages.type = {DType::f32, Shape{paging.slots * static_cast<std::int64_t>(states) * page}};
  pages.role = Role::pages;
  pages.section = Section::update;
  const ValueId room = result.values.push_back(std::move(pages));
  for (const NodeId id : updates) result.nodes[id].pages = room;
  return result;
}

std::vector<ReserveItem> paging_reserve(const Graph& graph, const Paging& paging, const Machine& machine) {
  // A ring of eight entries is two pages; touching liburing brings in 64 KiB of it.
  constexpr Bytes kThreadState{64 << 10}, kPieceState{2 << 10}, kRing{(64 << 10) + 2 * kPage.n};
  if (!paging.active()) return {};
  const bool ring = transfers_of(machine) == TransferEngine::io_uring;
  std::int64_t pieces = 0;
  for (const Value& value : graph.values) {
    if (value.persistent() && value.tier != 0) pieces += (value.type.shape.elements() + paging.page - 1) / paging.page;
  }
  std::vector<ReserveItem> items{{"transfers: staging", kTransferStaging * (kTransfers + 1), "counted"},
                                 {"transfers: pieces", kPieceState * pieces, "counted"},
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
