#include "plan/lifetimes.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "base/error.h"

namespace plimsoll {
namespace {

bool updated_in(const Graph& graph, ValueId value, Section section) {
  return std::any_of(graph.values.begin(), graph.values.end(),
                     [&](const Value& version) { return version.version_of == value && version.section == section; });
}

bool trains(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const Node& node) { return node.section == Section::micro; });
}

// Accumulators of a window live from its first micro-step to its update, and the caches of a training through the passes that
// answer; other persistent values live through the run.
bool lives_through_window(const Graph& graph, ValueId value) {
  const Role role = graph.values[value].role;
  return role == Role::accumulator || (role == Role::output && updated_in(graph, value, Section::micro));
}

bool differs_at_start(const Graph& graph, const Node& node) {
  return brings_what_is_written(graph, node) || starts_window(graph, node);
}

// The first view of each value, and the next view of the same value after each view.
struct Views {
  PerValue<ValueId> first, next;

  explicit Views(const Graph& graph) : first(graph.values.size()), next(graph.values.size()) {
    for (auto it = graph.order.rbegin(); it != graph.order.rend(); ++it) {
      const Node& node = graph.nodes[*it];
      if (node.op->view) next[node.outputs[0]] = std::exchange(first[node.inputs[0]], node.outputs[0]);
    }
  }
};

class Analysis {
 public:
  Analysis(const Graph& graph, const Timeline& timeline, const std::vector<Bytes>& scratch)
      : graph_(graph), timeline_(timeline), scratch_(scratch), last_use_(graph.values.size(), -1) {}

  Lifetimes run() {
    result_.buffer_of.resize(graph_.values.size());
    result_.scratch.resize(timeline_.steps.size());
    find_last_uses();
    add_persistent();
    for (int step = 0; step < static_cast<int>(timeline_.steps.size()); ++step) visit(step);
    return std::move(result_);
  }

 private:
  void find_last_uses() {
    for (int step = 0; step < static_cast<int>(timeline_.steps.size()); ++step) {
      find_access(graph_, timeline_.steps[static_cast<std::size_t>(step)], false, access_);
      for (const ValueId value : access_.reads) last_use_[value] = step;
    }
    // A view has no step of its own: its readers read the viewed value.
    for (auto it = graph_.order.rbegin(); it != graph_.order.rend(); ++it) {
      const Node& node = graph_.nodes[*it];
      if (node.op->view) last_use_[node.inputs[0]] = std::max(last_use_[node.inputs[0]], last_use_[node.outputs[0]]);
    }
  }

  // The steps of all passes that read a cache.
  StepRange answering_steps() const {
    StepRange range;
    for (std::size_t pass = 0; pass < timeline_.forward.size(); ++pass) {
      if (!reads_cache(forward_section(pass))) continue;
      if (range.empty()) range.begin = timeline_.forward[pass].begin;
      range.end = timeline_.forward[pass].end;
    }
    return range;
  }

  bool reads_cache(Section section) const {
    return std::ranges::any_of(graph_.nodes, [&](const Node& node) {
      return node.section == section && std::ranges::any_of(node.inputs, [&](ValueId input) {
               return graph_.values[origin_of(graph_, input)].role == Role::cache;
             });
    });
  }

  void add_persistent() {
    const StepRange answering = trains(graph_) ? answering_steps() : StepRange{};
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      const ValueId id{i};
      const bool of_round = is_of_round(graph_.values[id]);
      if ((!graph_.values[id].persistent() && !of_round) || graph_.values[id].tier != 0) continue;
      Buffer buffer = buffer_for(id);
      const bool of_answers = graph_.values[id].role == Role::cache && !answering.empty();
      buffer.persistent = !of_answers && !lives_through_window(graph_, id);
      if (of_answers) {
        buffer.begin = buffer.first_begin = answering.begin;
        buffer.end = answering.end;
      } else if (buffer.persistent) {
        buffer.end = static_cast<int>(timeline_.steps.size());
      } else {
        buffer.begin = timeline_.rounds == 1 || of_round ? std::numeric_limits<int>::max() : timeline_.window;
        buffer.first_begin = std::numeric_limits<int>::max();
      }
      result_.buffer_of[id] = result_.buffers.push_back(std::move(buffer));
      last_.push_back(last_use_[id]);
      join_views(id);
    }
  }

  Buffer buffer_for(ValueId id) const {
    const Value& value = graph_.values[id];
    Buffer buffer;
    buffer.bytes = aligned_bytes(value);
    buffer.value = id;
    buffer.owner = name(value.role);
    return buffer;
  }

  void visit(int step) {
    const Step& what = timeline_.steps[static_cast<std::size_t>(step)];
    find_access(graph_, what, false, access_);
    if (what.kind == Step::Kind::node) {
      place_outputs(graph_.nodes[what.node], step);
    } else if (what.kind == Step::Kind::feed) {
      for (const ValueId value : access_.writes) give_own_buffer(value, step);
    }
    const StepRange together = streams_with(graph_, timeline_, step);
    for (const ValueId value : access_.reads) {
      if (graph_.values[value].role == Role::pages) give_own_buffer(value, step);
      touch(value, together);
    }
    for (const ValueId value : access_.writes) touch(value, together);
    if (step < timeline_.micro.begin && step >= timeline_.window) return add_scratch(step, together);  // no step of `first`
    if (what.kind == Step::Kind::node && differs_at_start(graph_, graph_.nodes[what.node]))
      find_access(graph_, what, /*window_start=*/true, access_);
    for (const auto* values : {&access_.reads, &access_.writes}) {
      for (const ValueId value : *values) {
        int& first_begin = result_.buffers[result_.buffer_of[value]].first_begin;
        first_begin = std::min(first_begin, together.begin);
      }
    }
    add_scratch(step, together);
  }

  // `last_[buffer]` is the last step that reads any value in the buffer.
  void place_outputs(const Node& node, int step) {
    const std::vector<NodeAlias> aliases = aliases_of(graph_, node);
    std::vector<BufferId> taken;
    for (const ValueId output : node.outputs) {
      if (graph_.values[output].tier != 0) continue;
      BufferId shared;
      for (const NodeAlias& alias : aliases) {
        if (alias.output != output) continue;
        const BufferId candidate = result_.buffer_of[alias.input];
        if (in_place(alias.kind)) shared = candidate;
        if (alias.kind == AliasKind::may_overwrite && !shared.valid() && may_take(node, alias, candidate, step, taken)) {
          shared = candidate;
        }
      }
      if (shared.valid()) {
        join(output, shared);
        taken.push_back(shared);
      } else {
        give_own_buffer(output, step);
      }
    }
  }

  bool may_take(const Node& node, const NodeAlias& alias, BufferId buffer, int step, const std::vector<BufferId>& taken) const {
    const Bytes bytes = aligned_bytes(graph_.values[alias.input]);
    const Value& first = graph_.values[result_.buffers[buffer].value];  // the value under all views
    if (first.persistent() || first.role == Role::input || last_[buffer.index] != step) return false;
    // The bytes before alignment are compared: a kernel in place reads and writes the same elements.
    if (graph_.values[alias.input].bytes() != graph_.values[alias.output].bytes()) return false;
    if (bytes != result_.buffers[buffer].bytes) return false;
    if (std::find(taken.begin(), taken.end(), buffer) != taken.end()) return false;
    return std::none_of(node.inputs.begin(), node.inputs.end(),
                        [&](ValueId other) { return other != alias.input && result_.buffer_of[other] == buffer; });
  }

  void join(ValueId value, BufferId buffer) {
    result_.buffer_of[value] = buffer;
    last_[buffer.index] = std::max(last_[buffer.index], last_use_[value]);
    join_views(value);
  }

  // Views of a value, and their views, live in its buffer.
  void join_views(ValueId value) {
    for (ValueId view = views_.first[value]; view.valid(); view = views_.next[view]) join(view, result_.buffer_of[value]);
  }

  void give_own_buffer(ValueId value, int step) {
    if (result_.buffer_of[value].valid()) return;
    Buffer buffer = buffer_for(value);
    buffer.begin = step;
    buffer.first_begin = std::numeric_limits<int>::max();
    const BufferId id = result_.buffers.push_back(std::move(buffer));
    last_.push_back(last_use_[value]);
    result_.buffer_of[value] = id;
    join_views(value);
  }

  void touch(ValueId value, StepRange steps) {
    Buffer& buffer = result_.buffers[result_.buffer_of[value]];
    buffer.begin = std::min(buffer.begin, steps.begin);
    buffer.end = std::max(buffer.end, steps.end);
  }

  // A node that streams keeps its scratch from range to range.
  void add_scratch(int step, StepRange together) {
    const Bytes bytes = scratch_[static_cast<std::size_t>(step)];
    if (bytes.n == 0) return;
    result_.scratch[static_cast<std::size_t>(step)] = result_.buffers.push_back(
        {align_up(bytes, kAlignment), together.begin, together.end, together.begin, false, {}, "kernel scratch"});
    last_.push_back(step);
  }

  const Graph& graph_;
  const Timeline& timeline_;
  const std::vector<Bytes>& scratch_;
  StepAccess access_;  // of the current step
  PerValue<int> last_use_;
  std::vector<int> last_;
  Views views_{graph_};
  Lifetimes result_;
};

}  // namespace

Lifetimes analyse(const Graph& graph, const Timeline& timeline, const std::vector<Bytes>& scratch) {
  return Analysis(graph, timeline, scratch).run();
}

bool brings_what_is_written(const Graph& graph, const Node& node) {
  if (node.op->transfer != Transfer::fetch && node.op->transfer != Transfer::fetched) return false;
  return graph.values[origin_of(graph, node.inputs[0])].role == Role::accumulator;
}

bool is_of_round(const Value& value) {
  return value.role == Role::accumulator && value.section == Section::micro && !value.producer.valid();
}

bool comes_from_before(const Graph& graph, ValueId value) {
  const NodeId producer = graph.values[value].producer;
  return graph.values[value].persistent() || is_of_round(graph.values[value]) ||
         (producer.valid() && graph.nodes[producer].op->transfer == Transfer::fetched);
}

bool starts_window(const Graph& graph, const Node& node) {
  if (!graph.sums(node.section)) return false;
  if (node.op->transfer != Transfer::none) return false;
  return std::ranges::any_of(aliases_of(*node.op, node.attributes), [&](const Alias& alias) {
    return alias.kind == AliasKind::accumulates && comes_from_before(graph, node.inputs[alias.input]);
  });
}

bool starts_round(const Graph& graph, const Node& node) {
  return starts_window(graph, node) && std::ranges::any_of(aliases_of(*node.op, node.attributes), [&](const Alias& alias) {
           return alias.kind == AliasKind::accumulates && is_of_round(graph.values[node.inputs[alias.input]]);
         });
}

StepAccess access_of(const Graph& graph, const Step& step, bool window_start) {
  StepAccess access;
  find_access(graph, step, window_start, access);
  return access;
}

void find_access(const Graph& graph, const Step& step, bool window_start, StepAccess& access) {
  access.reads.clear();
  access.writes.clear();
  const auto each_value = [&](auto&& wanted, std::vector<ValueId>& into) {
    for (std::size_t i = 0; i < graph.values.size(); ++i) {
      if (wanted(ValueId{i}, graph.values[ValueId{i}])) into.push_back(ValueId{i});
    }
  };
  const auto of_answers = [&](const Value& value) { return value.role == Role::cache && trains(graph); };
  const auto state = [&](ValueId id, const Value& value) {
    return value.persistent() && value.tier == 0 && !lives_through_window(graph, id) && !of_answers(value);
  };
  switch (step.kind) {
    case Step::Kind::load: each_value(state, access.writes); break;
    case Step::Kind::save: each_value(state, access.reads); break;
    case Step::Kind::feed:
      each_value([&](ValueId, const Value& value) { return value.fed_in(step.section); }, access.writes);
      break;
    case Step::Kind::fetch:
      for (const ValueId result : graph.results) {
        if (graph.values[result].section == step.section) access.reads.push_back(result);
      }
      each_value(
          [&](ValueId id, const Value& value) {
            const Section written = step.section == Section::update ? Section::micro : step.section;
            return value.persistent() && value.role == Role::output && updated_in(graph, id, written);
          },
          access.reads);
      break;
    case Step::Kind::node: {
      const Node& node = graph.nodes[step.node];
      const auto here = [&](ValueId value) { return graph.values[value].tier == 0; };
      if (window_start && brings_what_is_written(graph, node)) return;
      std::copy_if(node.inputs.begin(), node.inputs.end(), std::back_inserter(access.reads), here);
      std::copy_if(node.outputs.begin(), node.outputs.end(), std::back_inserter(access.writes), here);
      if (node.pages.valid()) access.reads.push_back(node.pages);
      if (!starts_window(graph, node) || (!window_start && !starts_round(graph, node))) break;
      for (const NodeAlias& alias : aliases_of(graph, node)) {
        if (alias.kind == AliasKind::accumulates) std::erase(access.reads, alias.input);
      }
      break;
    }
  }
}

bool lives(const Buffer& buffer, int step, Phase phase) { return buffer.begin_in(phase) <= step && step < buffer.end; }

bool is_accumulator(const Graph& graph, const Buffer& buffer) {
  if (!buffer.value.valid()) return false;
  const Value& value = graph.values[buffer.value];
  return value.role == Role::accumulator && !is_of_round(value);
}

LiveProfile live_profile(const Lifetimes& lifetimes, const Timeline& timeline, Phase phase) {
  const StepRange range = timeline.of(phase);
  LiveProfile profile;
  std::vector<std::int64_t> delta(static_cast<std::size_t>(range.end - range.begin) + 1, 0);
  for (const Buffer& buffer : lifetimes.buffers) {
    const int begin = std::max(buffer.begin_in(phase), range.begin);
    // Without an update in `first`, the accumulators stay for the next micro-step.
    const int end = std::min(buffer.end, range.end);
    if (begin >= end) continue;
    delta[static_cast<std::size_t>(begin - range.begin)] += buffer.bytes.n;
    delta[static_cast<std::size_t>(end - range.begin)] -= buffer.bytes.n;
  }
  std::int64_t live = 0;
  profile.peak_step = range.begin;
  for (int step = range.begin; step < range.end; ++step) {
    live += delta[static_cast<std::size_t>(step - range.begin)];
    profile.bytes.push_back(Bytes{live});
    if (Bytes{live} > profile.peak) {
      profile.peak = Bytes{live};
      profile.peak_step = step;
    }
  }
  return profile;
}

}  // namespace plimsoll
