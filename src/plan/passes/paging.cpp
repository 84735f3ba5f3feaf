#include "plan/passes/paging.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/ceil_div.h"
#include "base/error.h"
#include "graph/exchange.h"
#include "plan/lifetimes.h"
#include "plan/timeline.h"

namespace plimsoll {

std::vector<StreamedInput> streamed_inputs(const Graph& graph, const Node& node) {
  std::vector<StreamedInput> inputs;
  const auto here = [&](ValueId input) { return graph.values[input].tier == 0; };
  if (node.op->transfer != Transfer::none || std::ranges::all_of(node.inputs, here)) return inputs;
  const std::vector<Alias> aliases = aliases_of(*node.op, node.attributes);
  const bool starts = starts_window(graph, node);
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (here(node.inputs[i])) continue;
    const auto alias =
        std::find_if(aliases.begin(), aliases.end(), [&](const Alias& each) { return in_place(each.kind) && each.input == i; });
    const bool changes = alias != aliases.end(), adds = changes && alias->kind == AliasKind::accumulates;
    inputs.push_back({i, changes, adds && starts && comes_from_before(graph, node.inputs[i])});
  }
  return inputs;
}

std::vector<UpdateInput> update_inputs(const Graph& graph, Role role) {
  std::vector<UpdateInput> found;
  for (const NodeId id : graph.section_order(Section::update)) {
    for (const NodeAlias& alias : aliases_of(graph, graph.nodes[id])) {
      if (alias.kind != AliasKind::updates) continue;
      for (const ValueId input : graph.nodes[id].inputs) {
        const ValueId read = origin_of(graph, input);
        if (graph.values[read].role == role) found.push_back({origin_of(graph, alias.input), read});
      }
    }
  }
  return found;
}

namespace {

constexpr int kNone = -1, kSeveral = -2;  // no block reads it, several blocks read it

PerValue<int> readers_of_parameters(const Graph& graph, const std::vector<Unit>& units) {
  PerValue<int> block_of(graph.values.size(), kNone);
  PerNode<int> block_of_node(graph.nodes.size(), kNone);
  for (std::size_t i = 0; i < units.size(); ++i) {
    for (const NodeId id : units[i].nodes) block_of_node[id] = static_cast<int>(i);
  }
  for (const NodeId id : graph.section_order(main_section(graph))) {
    const Node& node = graph.nodes[id];
    if (node.backward) continue;
    for (const ValueId input : node.inputs) {
      if (graph.values[input].role != Role::parameter) continue;
      const int reader = block_of_node[node.replica_of.valid() ? node.replica_of : id];
      int& block = block_of[input];
      if (block == kNone && reader != kNone) {
        block = reader;
      } else if (block != reader || reader == kNone) {
        block = kSeveral;
      }
    }
  }
  return block_of;
}

// The block of each optimizer state whose parameter is read by one block alone.
PerValue<int> blocks_of_state(const Graph& graph, const std::vector<Unit>& units) {
  const PerValue<int> readers = readers_of_parameters(graph, units);
  PerValue<int> block_of(graph.values.size(), kNone);
  for (const auto& [parameter, state] : update_inputs(graph, Role::optimizer_state)) {
    if (readers[parameter] >= 0) block_of[state] = readers[parameter];
  }
  return block_of;
}

}  // namespace

PerValue<int> units_of_values(const Graph& graph, const std::vector<Unit>& units) {
  constexpr int kSmallestPart = 32;
  PerValue<int> block_of = readers_of_parameters(graph, units);
  const int blocks = block_count(units);
  // Values that ops outside the blocks read in ranges are tables, or stay in memory.
  for (const NodeId id : graph.section_order(main_section(graph))) {
    if (graph.nodes[id].op->ranges == nullptr) continue;
    for (const ValueId input : graph.nodes[id].inputs) {
      if (block_of[input] >= blocks) block_of[input] = kSeveral;
    }
  }
  std::vector<std::int64_t> bytes(units.size(), 0);
  for (std::size_t i = 0; i < block_of.size(); ++i) {
    const int block = block_of[ValueId{i}];
    if (block >= 0) bytes[static_cast<std::size_t>(block)] += graph.values[ValueId{i}].bytes().n;
  }
  if (blocks > 0) std::fill(bytes.begin() + blocks, bytes.end(), *std::max_element(bytes.begin(), bytes.begin() + blocks));
  for (std::size_t i = 0; i < block_of.size(); ++i) {
    int& block = block_of[ValueId{i}];
    if (block < 0 || graph.values[ValueId{i}].bytes().n * kSmallestPart < bytes[static_cast<std::size_t>(block)]) block = kNone;
  }
  // A block that reads the copy of a shard owns the shard.
  for (const NodeId id : graph.section_order(Section::update)) {
    const Node& node = graph.nodes[id];
    if (node.op->exchange != Exchange::fetch_shards) continue;
    block_of[origin_of(graph, node.inputs[0])] = block_of[origin_of(graph, node.inputs[1])];
  }
  for (const auto& [parameter, accumulator] : update_inputs(graph, Role::accumulator)) {
    if (block_of[parameter] >= 0) block_of[accumulator] = block_of[parameter];
  }
  return block_of;
}

namespace {

// Ranges are multiples of this many elements: one disk block of fp32.
constexpr std::int64_t kElementStep = kStoredAlignment.n / size_of(DType::f32);

// Nodes of blocks read whole copies of values on other tiers (plan/passes/fetching.h).
bool works_on_ranges(const Graph& graph, const Node& node) {
  return (node.section == Section::update || node.op->ranges != nullptr) && !streamed_inputs(graph, node).empty();
}

class PagingPass {
 public:
  PagingPass(const Graph& graph, const std::vector<Unit>& units, const Residency& residency)
      : result_(graph),
        residency_(residency),
        blocks_(block_count(units)),
        block_of_(units_of_values(graph, units)),
        state_of_(blocks_of_state(graph, units)),
        table_(graph.values.size(), 0),
        in_ranges_(graph.values.size(), 0),
        whole_(graph.values.size(), 0),
        exchanged_(graph.values.size(), 0) {
    for (const NodeId id : graph.section_order(Section::update)) {
      const Node& node = graph.nodes[id];
      const std::vector<std::size_t> ranged = ranges_of(graph, node).inputs;
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const bool range = std::find(ranged.begin(), ranged.end(), i) != ranged.end();
        (range ? in_ranges_ : whole_)[origin_of(graph, node.inputs[i])] = 1;
      }
    }
    for (const NodeId id : graph.order) {
      const Node& node = graph.nodes[id];
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        if (is_exchanged(node, i)) exchanged_[origin_of(graph, node.inputs[i])] = 1;
      }
    }
    if (residency.tables.beyond) find_tables();
  }

  Graph run() {
    for (std::size_t i = 0; i < result_.values.size(); ++i) {
      Value& value = result_.values[ValueId{i}];
      const bool resting = value.persistent() || value.version_of.valid();
      if (resting && rests_elsewhere(origin_of(result_, ValueId{i}))) value.tier = 1;
    }
    // Nodes of the update share their pages, and so do those that measure gradients: one can fetch while another runs. Readers of
    // tables are far apart.
    std::map<Section, std::vector<NodeId>> together;
    for (const NodeId id : std::vector(result_.order)) {
      const Node& node = result_.nodes[id];
      if (!works_on_ranges(result_, node)) continue;
      check_streamed(node);
      streams_as_one(result_, node.section) ? together[node.section].push_back(id) : give_pages(std::string(node.line), {id});
    }
    for (const auto& [section, nodes] : together) give_pages(std::string(result_.name(section)), nodes);
    if (residency_.near != Residency::kAllNear) send_far();
    return std::move(result_);
  }

 private:
  // State of at most one disk block stays in memory: its instructions and checksum take as many bytes, and its transfer is all
  // latency. Values that an update needs whole stay, too.
  bool rests_elsewhere(ValueId value) const {
    if (exchanged_[value] != 0) return false;
    switch (result_.values[value].role) {
      case Role::optimizer_state:
        return in_ranges_[value] != 0 && result_.values[value].bytes() > kStoredAlignment && !keeps_state(state_of_[value]);
      case Role::parameter:
        return (residency_.parameters.beyond && leaves_a_block(value) && whole_[value] == 0) || table_[value] != 0;
      case Role::accumulator: return (residency_.accumulators.beyond && leaves_a_block(value)) || table_[value] != 0;
      default: return false;
    }
  }
  bool keeps_state(int block) const {
    return block >= 0 && block < blocks_ && !residency_.parameters.beyond && !residency_.accumulators.beyond &&
           stays(residency_, block, blocks_);
  }
  bool leaves_a_block(ValueId value) const {
    const int block = block_of_[value];
    return block >= blocks_ ? residency_.tables.beyond : block >= 0 && !stays(residency_, block, blocks_);
  }

  // A table is a parameter that all nodes read in ranges, large enough for paging to pay. Its accumulator belongs to it.
  void find_tables() {
    for (std::size_t i = 0; i < result_.values.size(); ++i) {
      table_[ValueId{i}] = result_.values[ValueId{i}].parameter && whole_[ValueId{i}] == 0 ? 1 : 0;
    }
    for (const Node& node : result_.nodes) {
      if (node.section == Section::update) continue;
      const RangeRule rule = ranges_of(result_, node);
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const Value& value = result_.values[node.inputs[i]];
        if (!value.parameter) continue;
        const bool ranged = std::find(rule.inputs.begin(), rule.inputs.end(), i) != rule.inputs.end();
        const bool pages = rule.step % kPageStep == 0 && is_float(value.type.dtype);
        const bool large = value.type.shape.elements() >= 2 * residency_.pages.slots * rule.step;
        if (!ranged || !pages || !large) table_[node.inputs[i]] = 0;
      }
    }
    // Accumulators of separate rows count as well if they have the shape of the table.
    for (int i = 0; i < 2; ++i) {
      for (const auto& [changed, accumulator] : update_inputs(result_, Role::accumulator)) {
        const bool alike = result_.values[changed].type.shape == result_.values[accumulator].type.shape;
        if (table_[changed] != 0 && alike) table_[accumulator] = 1;
      }
    }
  }

  // Values that exceed the room of tier 1 go to tier 2.
  void send_far() {
    std::vector<std::tuple<int, std::size_t, std::size_t, ValueId>> order;
    std::set<ValueId> seen;
    const auto add = [&](ValueId value, std::size_t number, std::size_t place) {
      const Value& what = result_.values[value];
      if (!what.persistent() || what.tier == 0 || !seen.insert(value).second) return;
      const int rank = what.role == Role::parameter ? 0 : what.role == Role::accumulator ? 1 : 2;
      order.emplace_back(rank, number, place, value);
    };
    const std::vector<NodeId> updates = result_.section_order(Section::update);
    for (std::size_t place = 0; place < updates.size(); ++place) {
      const std::vector<ValueId>& inputs = result_.nodes[updates[place]].inputs;
      for (std::size_t i = 0; i < inputs.size(); ++i) add(origin_of(result_, inputs[i]), i, place);
    }
    for (std::size_t i = 0; i < result_.values.size(); ++i) add(ValueId{i}, 0, updates.size());
    std::sort(order.begin(), order.end());
    Bytes used;
    for (const auto& [rank, number, place, value] : order) {
      const Bytes bytes = align_up(result_.values[value].bytes(), kStoredAlignment);
      const bool far = used + bytes > residency_.near;
      if (!far) used += bytes;
      if (far) result_.values[value].tier = 2;
    }
    for (std::size_t i = 0; i < result_.values.size(); ++i) {
      Value& value = result_.values[ValueId{i}];
      if (value.tier != 0) value.tier = result_.values[origin_of(result_, ValueId{i})].tier;
    }
  }

  // Inputs that the node streams have one shape; their widths may differ.
  void check_streamed(const Node& node) const {
    const std::vector<std::size_t> ranged = ranges_of(result_, node).inputs;
    for (const StreamedInput& streamed : streamed_inputs(result_, node)) {
      if (std::find(ranged.begin(), ranged.end(), streamed.input) == ranged.end()) {
        throw internal_error("paging", fmt::format("{} ({}) reads the whole of {}, which rests on another tier", node.line.text(),
                                                   node.op->name, result_.values[node.inputs[streamed.input]].name.text()));
      }
      const ValueType& type = result_.values[node.inputs[streamed.input]].type;
      ensure(type.shape == result_.values[node.inputs[ranged.front()]].type.shape, "paging",
             "the streamed inputs differ in shape");
    }
  }

  void give_pages(const std::string& owner, const std::vector<NodeId>& nodes) {
    const std::int64_t page = page_elements(result_, residency_);
    std::int64_t slot = 0;
    for (const NodeId id : nodes) slot = std::max(slot, range_elements(result_, result_.nodes[id], page));
    Value pages;
    pages.name = owner + ".pages";
    pages.type = {DType::f32, Shape{residency_.pages.slots * slot * slot_bytes(result_, nodes).n / size_of(DType::f32)}};
    pages.role = Role::pages;
    pages.section = result_.nodes[nodes.front()].section;
    const ValueId room = result_.values.push_back(std::move(pages));
    for (const NodeId id : nodes) result_.nodes[id].pages = room;
  }

  Graph result_;
  const Residency& residency_;
  int blocks_;
  PerValue<int> block_of_, state_of_;
  PerValue<char> table_;      // tables and their accumulators
  PerValue<char> in_ranges_;  // values that an update reads in ranges
  PerValue<char> whole_;      // values that an update reads whole
  PerValue<char> exchanged_;  // values that messages between ranks read or write
};

}  // namespace

bool streams_as_one(const Graph& graph, Section section) { return section == Section::update || reads_window(graph, section); }

bool stays(const Residency& residency, int block, int blocks) {
  const auto before = [&](std::int64_t end) { return end * residency.kept() / blocks; };
  return before(block + 1) > before(block);
}

RangeRule ranges_of(const Graph& graph, const Node& node) {
  return node.op->ranges == nullptr ? RangeRule{} : node.op->ranges(node.attributes, types_of(graph, node.inputs));
}

std::int64_t range_elements(const Graph& graph, const Node& node, std::int64_t page) {
  const RangeRule rule = ranges_of(graph, node);
  const std::int64_t all = round_up(graph.values[node.inputs[rule.inputs.front()]].type.shape.elements(), kElementStep);
  return std::min(all, std::max(page, rule.step));
}

Bytes slot_bytes(const Graph& graph, const std::vector<NodeId>& nodes) {
  std::int64_t most = 0;
  for (const NodeId id : nodes) {
    std::int64_t bytes = 0;
    for (const StreamedInput& streamed : streamed_inputs(graph, graph.nodes[id])) {
      bytes += size_of(graph.values[graph.nodes[id].inputs[streamed.input]].type.dtype);
    }
    most = std::max(most, bytes);
  }
  return Bytes{most};
}

// A range is a multiple of a page, or a page a multiple of a range. Pages are whole disk blocks for every element type.
std::int64_t page_elements(const Graph& graph, const Residency& residency) {
  std::int64_t largest = 0;
  DType lightest = DType::f32;
  for (const Value& value : graph.values) {
    if (!value.persistent() || value.tier == 0) continue;
    largest = std::max(largest, round_up(value.type.shape.elements(), kElementStep));
    if (size_of(value.type.dtype) < size_of(lightest)) lightest = value.type.dtype;
  }
  if (largest <= residency.pages.elements) return largest;
  std::vector<std::int64_t> steps;
  for (const Node& node : graph.nodes) {
    if (!streams_as_one(graph, node.section) && works_on_ranges(graph, node)) steps.push_back(ranges_of(graph, node).step);
  }
  std::int64_t page = round_up(residency.pages.elements, kStoredAlignment.n / size_of(lightest));
  const auto fits = [&](std::int64_t step) { return page % step == 0 || step % page == 0; };
  while (page > kPageStep && !std::all_of(steps.begin(), steps.end(), fits)) page -= kPageStep;
  ensure(std::all_of(steps.begin(), steps.end(), fits), "paging", "no page divides the ranges");
  return page;
}

Graph apply_paging(const Graph& graph, const std::vector<Unit>& units, const Residency& residency) {
  return residency.active() ? PagingPass(graph, units, residency).run() : graph;
}

namespace {

// Upper bound for a GPU's page tables of pinned memory: 8 bytes of its memory for each page.
std::vector<ReserveItem> pinned_tables(const Graph& graph, std::size_t host) {
  constexpr Bytes kStep{64 << 10};
  const std::int64_t pages = ceil_div(stored_layout(graph).ends[host].n, kPage.n);
  if (pages == 0) return {};  // everything rests on a disk
  return {{"page tables of pinned memory", align_up(Bytes{8 * pages}, kStep), "bound"}};
}

}  // namespace

std::vector<ReserveItem> paging_reserve(const Graph& graph, const Residency& residency, const Machine& machine,
                                        std::size_t tier) {
  // A ring of up to 32 entries is two pages; touching liburing brings in 64 KiB of it.
  constexpr Bytes kThreadState{64 << 10}, kPieceState{2 << 10}, kCopyState{640}, kRing{(64 << 10) + 2 * kPage.n};
  const std::size_t host = tier_of(machine.tiers, TierKind::host), disk = disk_of(machine);
  if (residency.active() && host > 0 && tier == 0 && machine.backend == Backend::cuda) return pinned_tables(graph, host);
  if (!residency.active() || tier != host) return {};
  const std::int64_t page = page_elements(graph, residency);
  const auto pieces_of = [&](ValueId value) { return ceil_div(graph.values[value].type.shape.elements(), page); };
  std::int64_t pieces = 0, copies = 0;
  bool to_disk = false, to_host = false;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[ValueId{i}];
    if (!value.persistent() || value.tier == 0) continue;
    pieces += pieces_of(ValueId{i});
    (value.tier == disk ? to_disk : to_host) = true;
  }
  for (const Node& node : graph.nodes) {
    if (node.op->transfer != Transfer::none) copies += pieces_of(node.inputs[0]);
    if (node.section == Section::update || !node.pages.valid()) continue;
    const RangeRule rule = ranges_of(graph, node);
    if (node.replica_of.valid()) {  // its kernels run on ranges that another node's transfers bring
      const std::int64_t elements = graph.values[node.inputs[rule.inputs.front()]].type.shape.elements();
      copies += rule.passes * ceil_div(elements, range_elements(graph, node, page));
      continue;
    }
    for (const StreamedInput& streamed : streamed_inputs(graph, node)) {
      copies += (rule.passes + 1) * pieces_of(node.inputs[streamed.input]);
    }
  }
  const bool ring = to_disk && transfers_of(machine) == TransferEngine::io_uring;
  const int threads = (to_disk ? (ring ? 1 : kTransfers) : 0) + (to_host ? 2 : 0);  // a host's memory has one each way
  std::vector<ReserveItem> items;
  if (to_disk) items.push_back({"transfers: staging", kTransferStaging * (kTransfers + 1), "counted"});
  items.push_back({kPiecesItem, kPieceState * pieces + kCopyState * copies, "counted"});
  items.push_back({"transfers: threads", kThreadState * threads, "bound"});
  if (ring) items.push_back({"transfers: io_uring", kRing, "bound"});
  return items;
}

bool has_room(const StoredLayout& stored, const Residency& residency, const std::vector<Bytes>& beyond) {
  for (std::size_t tier = 1; tier < stored.ends.size(); ++tier) {
    const Bytes room = tier <= beyond.size() ? beyond[tier - 1] : Bytes{0};
    if (stored.ends[tier] > (tier == 1 ? std::min(room, residency.near) : room)) return false;
  }
  return true;
}

StoredLayout stored_layout(const Graph& graph) {
  StoredLayout layout;
  layout.offsets.resize(graph.values.size(), Bytes{-1});
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[ValueId{i}];
    if (!value.persistent() || value.tier == 0) continue;
    layout.offsets[ValueId{i}] = layout.ends[value.tier];
    layout.ends[value.tier] += align_up(value.bytes(), kStoredAlignment);
  }
  return layout;
}

}  // namespace plimsoll
