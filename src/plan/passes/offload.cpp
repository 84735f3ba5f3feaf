#include "plan/passes/offload.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <unordered_set>
#include <utility>

#include "graph/transfer.h"
#include "plan/passes/paging.h"
#include "plan/passes/transfer.h"

namespace plimsoll {
namespace {

// The round trip of one value.
struct Trip {
  ValueId value;
  std::size_t last_forward = 0;    // place of the last reader of the forward pass
  std::size_t first_backward = 0;  // the place before which it has to be back
  int unit = 0;
  ValueId home, moving, away;  // the value's home, its copy under way, its stored copy
};

// The only value that a block reads from outside; invalid if there are several or none.
ValueId crossing_into(const Graph& graph, const Unit& block) {
  ValueId crossing;
  const std::unordered_set<NodeId> nodes(block.nodes.begin(), block.nodes.end());
  for (const NodeId id : block.nodes) {
    for (const ValueId input : graph.nodes[id].inputs) {
      const NodeId producer = graph.values[input].producer;
      const bool inside = nodes.contains(producer);
      const bool transfer = producer.valid() && graph.nodes[producer].op->transfer != Transfer::none;
      if (!producer.valid() || inside || transfer || input == crossing) continue;
      if (crossing.valid()) return {};
      crossing = input;
    }
  }
  return crossing;
}

class Rewrite {
 public:
  Rewrite(Graph graph, const std::vector<Unit>& units, std::size_t count, Bytes near)
      : result_(std::move(graph)), left_(near - stored_layout(result_).ends[1]) {
    const int blocks = block_count(units);
    find_begins(units_of_nodes(result_, units), blocks);
    PerValue<int> goes(result_.values.size(), kStays);  // the unit that it crosses into
    for (std::size_t i = 0; i < std::min(count, static_cast<std::size_t>(blocks)); ++i) {
      const ValueId crossing = crossing_into(result_, units[i]);
      if (crossing.valid()) goes[crossing] = static_cast<int>(i);
    }
    for (std::size_t i = 0; i < result_.values.size(); ++i) {
      const ValueId original = result_.values[ValueId{i}].replica_of;
      if (original.valid() && goes[original] != kStays) goes[ValueId{i}] = goes[original];
    }
    find_trips(goes);
  }

  Graph run() {
    schedule();
    const std::vector<NodeId> old = std::exchange(result_.order, {});
    for (std::size_t place = 0; place < old.size(); ++place) {
      for (const auto& [what, trip] : before_[place]) emit(what, trips_[trip], old[place]);
      for (ValueId& input : result_.nodes[old[place]].inputs) {
        const auto here = here_.find(input);
        if (here != here_.end() && result_.nodes[old[place]].backward) input = here->second;
      }
      result_.order.push_back(old[place]);
      for (const auto& [what, trip] : after_[place]) emit(what, trips_[trip], old[place]);
    }
    return std::move(result_);
  }

 private:
  enum class What : std::uint8_t { stored, fetch, fetched, store };
  using Events = std::vector<std::pair<What, std::size_t>>;

  // Finds the places at which the backward pass enters each unit, clones for its first node included. There are none if several
  // micro-batches form a group, since each of them enters the unit.
  void find_begins(const PerNode<int>& unit_of, int blocks) {
    begins_.assign(static_cast<std::size_t>(blocks) + 1, kNowhere);
    std::size_t clones = 0;  // number of clones right before a place
    for (std::size_t place = 0; place < result_.order.size(); ++place) {
      const NodeId id = result_.order[place];
      const Node& node = result_.nodes[id];
      if (node.replica_of.valid()) return begins_.assign(begins_.size(), kNowhere);
      if (node.section != Section::micro || !node.backward) continue;
      if (node.clone_of.valid()) {
        ++clones;
        continue;
      }
      if (unit_of[id] >= 0 && unit_of[id] < blocks && node.op->transfer == Transfer::none) {
        std::size_t& begin = begins_[static_cast<std::size_t>(unit_of[id])];
        if (begin == kNowhere) begin = place - clones;
      }
      clones = 0;
    }
  }

  void find_trips(const PerValue<int>& goes) {
    std::map<ValueId, Trip> trips;
    for (std::size_t place = 0; place < result_.order.size(); ++place) {
      const Node& node = result_.nodes[result_.order[place]];
      if (node.section != Section::micro) continue;
      for (const ValueId input : node.inputs) {
        if (goes[input] == kStays) continue;
        Trip& trip = trips[input];
        trip.unit = goes[input];
        if (!node.backward) trip.last_forward = place;
        if (node.backward && !trip.value.valid()) {
          trip.value = input;
          trip.first_backward = std::min(place, begins_[static_cast<std::size_t>(trip.unit)]);
        }
      }
    }
    for (const auto& [value, trip] : trips) {
      if (trip.value.valid()) trips_.push_back(trip);
    }
    std::ranges::sort(trips_, {}, &Trip::last_forward);
  }

  void schedule() {
    before_.resize(result_.order.size());
    after_.resize(result_.order.size());
    std::vector<std::size_t> back(trips_.size());  // in the order of the fetches
    std::iota(back.begin(), back.end(), std::size_t{0});
    std::ranges::sort(back, {}, [&](std::size_t i) { return trips_[i].first_backward; });
    for (std::size_t i = 0; i < trips_.size(); ++i) {
      const bool last = i + 1 == trips_.size();
      after_[trips_[last ? i : i + 1].last_forward].emplace_back(What::stored, i);
      after_[trips_[i].last_forward].emplace_back(What::store, i);
    }
    for (std::size_t i = 0; i < back.size(); ++i) {
      const std::size_t place = trips_[back[i]].first_backward;
      before_[i == 0 ? first_fetch(back) : trips_[back[i - 1]].first_backward].emplace_back(What::fetch, back[i]);
      before_[place].emplace_back(What::fetched, back[i]);
    }
    // A store begins before the wait for the previous store; the last one waits for itself.
    for (Events& events : after_) {
      std::ranges::stable_partition(events, [](const auto& event) { return event.first == What::store; });
    }
  }

  // The first fetch begins when the backward pass enters the unit before. Without such a place it begins as long before its use
  // as the first use lies before the second.
  std::size_t first_fetch(const std::vector<std::size_t>& back) const {
    const std::size_t before = begins_[static_cast<std::size_t>(trips_[back.front()].unit) + 1];
    if (before != kNowhere) return std::min(before, trips_[back.front()].first_backward);
    const std::size_t first = trips_[back.front()].first_backward;
    if (back.size() == 1) return first;
    const std::size_t early = first - std::min(first, trips_[back[1]].first_backward - first);
    std::size_t place = first;
    while (place > early && result_.nodes[result_.order[place - 1]].backward) --place;
    return place;
  }

  ValueId home_of(Trip& trip) {
    if (trip.home.valid()) return trip.home;
    Value home;
    home.name = result_.values[trip.value].name + ".away";
    home.type = result_.values[trip.value].type;
    home.role = Role::activation;
    const Bytes bytes = align_up(home.bytes(), kStoredAlignment);
    home.tier = bytes <= left_ ? 1 : 2;
    if (home.tier == 1) left_ -= bytes;
    return trip.home = result_.values.push_back(std::move(home));
  }

  void emit(What what, Trip& trip, NodeId place) {
    const ValueId home = home_of(trip);
    switch (what) {
      case What::store: trip.moving = copy_by(result_, kStore, place, {trip.value}, home); break;
      case What::stored: {
        Value version = result_.values[home];
        version.section = Section::micro;
        version.version_of = home;
        trip.away = result_.values.push_back(std::move(version));
        give(result_, trip.away, add_transfer(result_, kStored, place, {trip.moving, home}, home));
        break;
      }
      case What::fetch: trip.moving = copy_by(result_, kFetch, place, {trip.away}, home); break;
      case What::fetched: here_[trip.value] = copy_by(result_, kFetched, place, {trip.moving}, home); break;
    }
  }

  static constexpr int kStays = -1;
  static constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();

  Graph result_;
  Bytes left_;                       // of tier 1
  std::vector<std::size_t> begins_;  // of the backward pass of each unit
  std::vector<Trip> trips_;
  std::vector<Events> before_, after_;
  std::map<ValueId, ValueId> here_;  // replacements that backward nodes read
};

}  // namespace

Graph apply_offload(Graph graph, const std::vector<Unit>& units, std::size_t count, Bytes near) {
  return count == 0 ? std::move(graph) : Rewrite(std::move(graph), units, count, near).run();
}

}  // namespace plimsoll
