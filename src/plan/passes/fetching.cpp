#include "plan/passes/fetching.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/transfer.h"
#include "plan/passes/paging.h"
#include "plan/passes/transfer.h"

namespace plimsoll {
namespace {

// A forward or backward pass through one block: the stretch of the order that reads its parameters.
struct Pass {
  int unit = -1;
  Section section = Section::micro;
  bool backward = false;
  std::size_t begin = 0, end = 0;  // places of its first and last reader or writer; clones do not begin it
  bool begun = false;
  struct Use {
    ValueId value;  // persistent, on another tier
    std::size_t first = 0, last = 0;
    bool written = false;
    ValueId here;  // the copy for the next node
  };
  std::vector<Use> uses;  // in the order of their first place
};

class Rewrite {
 public:
  Rewrite(Graph graph, const std::vector<Unit>& units, bool narrow, bool adds)
      : result_(std::move(graph)),
        narrow_(narrow),
        adds_(adds),
        unit_of_(units_of_nodes(result_, units)),
        before_(result_.order.size()),
        after_(result_.order.size()) {
    find_passes(units_of_values(result_, units));
    for (std::size_t i = 0; i < passes_.size(); ++i) narrow_ ? schedule_narrow(i) : schedule_wide(i);
  }

  Graph run() {
    const std::vector<NodeId> old = std::exchange(result_.order, {});
    for (std::size_t place = 0; place < old.size(); ++place) {
      emit(before_[place], old[place]);
      Node& node = result_.nodes[old[place]];
      if (node.section == Section::update) {
        use_what_is_here(node);
      } else if (!node.pages.valid()) {
        rewire(node, old[place], place);
      }
      result_.order.push_back(old[place]);
      emit(after_[place], old[place]);
    }
    return std::move(result_);
  }

 private:
  enum class What : std::uint8_t { fetch, fetched, store, stored };  // in the order of events at one place
  struct Event {
    What what;
    std::size_t pass, use;
  };

  bool rests_elsewhere(ValueId value) const {
    const Value& what = result_.values[value];
    return what.tier != 0 && (what.persistent() || what.version_of.valid());
  }

  // Nodes that work on ranges have pages of their own.
  void find_passes(const PerValue<int>& block_of) {
    std::map<std::tuple<int, Section, bool>, std::size_t> known;
    for (std::size_t place = 0; place < result_.order.size(); ++place) {
      const Node& node = result_.nodes[result_.order[place]];
      if (node.section == Section::update || node.pages.valid()) continue;
      for (const ValueId input : node.inputs) {
        if (!rests_elsewhere(input)) continue;
        const ValueId value = origin_of(result_, input);
        const auto [found, fresh] = known.emplace(std::tuple(block_of[value], node.section, node.backward), passes_.size());
        if (fresh) passes_.push_back({block_of[value], node.section, node.backward, place, place, false, {}});
        Pass& pass = passes_[found->second];
        if (!pass.begun && !node.clone_of.valid()) pass.begin = place, pass.begun = true;
        add_use(pass, value, place);
      }
    }
  }

  // A narrow pass fetches a parameter again if it has read another value in between.
  void add_use(Pass& pass, ValueId value, std::size_t place) {
    pass.end = place;
    const bool written = result_.values[value].role == Role::accumulator;
    const auto begin = narrow_ && !written && !pass.uses.empty() ? pass.uses.end() - 1 : pass.uses.begin();
    const auto use = std::find_if(begin, pass.uses.end(), [&](const Pass::Use& each) { return each.value == value; });
    if (use == pass.uses.end()) {
      pass.uses.push_back({value, place, place, written, {}});
    } else {
      use->last = place;
    }
  }

  void move(std::size_t index, std::size_t number, std::size_t early, std::size_t late) {
    const Pass::Use& use = passes_[index].uses[number];
    before_[std::min(early, use.first)].push_back({What::fetch, index, number});
    before_[use.first].push_back({What::fetched, index, number});
    if (!use.written) return;
    after_[use.last].push_back({What::store, index, number});
    after_[late].push_back({What::stored, index, number});
  }

  // The next value is fetched while the pass uses this one, and the last one is stored. No value of another pass is in memory, so
  // blocks can be treated differently.
  void schedule_narrow(std::size_t index) {
    const Pass& pass = passes_[index];
    for (std::size_t i = 0; i < pass.uses.size(); ++i) {
      const Pass::Use& use = pass.uses[i];
      const bool early = i > 0 && (!use.written || adds_);
      const std::size_t late = i + 1 < pass.uses.size() ? std::max(use.last, pass.uses[i + 1].last) : use.last;
      move(index, i, early ? pass.uses[i - 1].first : use.first, late);
    }
  }

  // Parameters are fetched during the pass before; the first backward pass does not hold its parameters through the loss.
  // Accumulators are fetched at the start of their pass, those of the first one together with its parameters, and are stored
  // during the pass after it.
  void schedule_wide(std::size_t index) {
    const Pass& pass = passes_[index];
    const auto like = [&](std::size_t other) {
      return other < passes_.size() && passes_[other].section == pass.section && passes_[other].backward == pass.backward;
    };
    const bool follows = like(index - 1);
    const std::size_t early = follows ? passes_[index - 1].begin : first_place(pass);
    const std::size_t late = like(index + 1) ? std::max(pass.end, passes_[index + 1].end) : section_end(pass);
    for (std::size_t i = 0; i < pass.uses.size(); ++i) {
      const Pass::Use& use = pass.uses[i];
      move(index, i, !use.written ? early : !adds_ ? use.first : follows ? pass.begin : early, late);
    }
  }

  // Goes back over all nodes of the section right before the pass. In the backward pass only clones and nodes of the same unit
  // count.
  std::size_t first_place(const Pass& pass) const {
    const auto precedes = [&](NodeId id) {
      const Node& node = result_.nodes[id];
      const bool same_unit = unit_of_[id] >= 0 && unit_of_[id] == pass.unit;
      return node.section == pass.section && (!pass.backward || (node.backward && (node.clone_of.valid() || same_unit)));
    };
    std::size_t place = pass.begin;
    while (place > 0 && precedes(result_.order[place - 1])) --place;
    return place;
  }

  std::size_t section_end(const Pass& pass) const {
    std::size_t place = pass.end;
    while (place + 1 < result_.order.size() && result_.nodes[result_.order[place + 1]].section == pass.section) ++place;
    return place;
  }

  void emit(std::vector<Event>& events, NodeId place) {
    std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return a.what < b.what; });
    for (const Event& event : events) emit(event, place);
  }

  void emit(const Event& event, NodeId place) {
    Pass::Use& use = passes_[event.pass].uses[event.use];
    switch (event.what) {
      case What::fetch: use.here = copy_by(result_, kFetch, place, {use.value}, use.value); break;
      case What::fetched: use.here = copy_by(result_, kFetched, place, {use.here}, use.value); break;
      case What::store: use.here = last_copy_[use.value] = copy_by(result_, kStore, place, {use.here}, use.value); break;
      // The update reads the last version under its original id.
      case What::stored:
        give(result_, last_version_.at(use.value), add_transfer(result_, kStored, place, {use.here, use.value}, use.value));
        break;
    }
  }

  void rewire(Node& node, NodeId id, std::size_t place) {
    for (ValueId& input : node.inputs) {
      if (rests_elsewhere(input)) input = use_at(origin_of(result_, input), place).here;
    }
    for (ValueId& output : node.outputs) {
      if (!rests_elsewhere(output)) continue;
      const ValueId rests = origin_of(result_, output);
      last_version_[rests] = output;
      output = use_at(rests, place).here = add_copy(result_, rests, node.section);
      result_.values[output].producer = id;
    }
  }

  // With one round a window, an update node that waits for no other update node reads the gradient in memory.
  void use_what_is_here(Node& node) const {
    const bool waits = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
      const NodeId producer = result_.values[input].producer;
      return producer.valid() && result_.nodes[producer].section == Section::update;
    });
    if (adds_ || waits) return;
    for (ValueId& input : node.inputs) {
      const auto copy = last_copy_.find(origin_of(result_, input));
      if (copy != last_copy_.end()) input = copy->second;
    }
    if (streamed_inputs(result_, node).empty()) node.pages = {};
  }

  Pass::Use& use_at(ValueId value, std::size_t place) {
    for (Pass& pass : passes_) {
      if (place > pass.end) continue;
      const auto use = std::find_if(pass.uses.begin(), pass.uses.end(), [&](const Pass::Use& each) {
        return each.value == value && each.first <= place && place <= each.last;
      });
      if (use != pass.uses.end()) return *use;
    }
    throw internal_error("fetching", "a value that no pass uses");
  }

  Graph result_;
  bool narrow_, adds_;
  PerNode<int> unit_of_;
  std::vector<Pass> passes_;  // in the order of their beginnings
  std::vector<std::vector<Event>> before_, after_;
  std::map<ValueId, ValueId> last_version_, last_copy_;  // by accumulator
};

}  // namespace

Graph apply_fetching(Graph graph, const std::vector<Unit>& units, bool narrow, bool adds) {
  return Rewrite(std::move(graph), units, narrow, adds).run();
}

}  // namespace plimsoll
