#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <set>

#include "base/error.h"
#include "program/copies.h"
#include "program/exchanges.h"
#include "program/program.h"
#include "program/stream.h"

namespace plimsoll {
namespace {

class Lowering {
 public:
  explicit Lowering(const Plan& plan) : plan_(plan), graph_(plan.graph) {}

  Program run() {
    program_.arena = plan_.arena;
    program_.rounds = plan_.timeline.rounds;
    place_operands();
    const Timeline& timeline = plan_.timeline;
    program_.load = section(timeline.load);
    program_.micro = section(timeline.micro);
    program_.update = section(timeline.update);
    for (const StepRange& pass : timeline.forward) program_.forward.push_back(section(pass));
    program_.save = section(timeline.save);
    if (!program_.caches.empty()) program_.clear.push_back(LoadState{program_.caches});
    return std::move(program_);
  }

 private:
  ValueId origin(ValueId value) const { return origin_of(graph_, value); }

  void place_operands() {
    program_.operands.resize(graph_.values.size());
    const StoredLayout stored = stored_layout(graph_);
    program_.stored = stored.ends;
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      const ValueId id{i};
      const BufferId buffer = plan_.lifetimes.buffer_of[id];
      const Value& value = graph_.values[id];
      if (value.tier != 0) program_.operands[id] = {value.tier, 0, stored.offsets[origin(id)], value.bytes(), origin(id)};
      if (!buffer.valid()) continue;
      program_.operands[id] = {0, 0, plan_.offsets[buffer.index] + offset_in_origin(graph_, id), value.bytes(), origin(id)};
      if (!value.persistent()) continue;
      const bool always = plan_.lifetimes.buffers[buffer].persistent, cached = value.role == Role::cache;
      (always ? program_.persistent : cached ? program_.caches : program_.window).push_back(program_.operands[id]);
    }
  }

  std::vector<Operand> operands(const std::vector<ValueId>& values) const {
    std::vector<Operand> result;
    for (const ValueId value : values) {
      ensure(plan_.lifetimes.buffer_of[value].valid(), "lower", "a value has no bytes");
      result.push_back(program_.operands[value]);
    }
    return result;
  }

  // The instructions of nodes on ranges.
  struct Streamed {
    std::map<NodeId, std::vector<Instruction>> of;
    std::uint32_t events = 0;
  };

  // Steps that share their pages form a stream, which fetches ranges ahead, but not before they are written. The results of a
  // stream are complete at its end, those of a store at its wait.
  Streamed stream(StepRange range) const {
    std::vector<std::vector<StreamedNodes>> streams;
    std::vector<int> begins;                   // first step, by stream
    std::map<ValueId, std::size_t> stream_of;  // by pages
    std::set<ValueId> written;                 // values of other tiers written by streams in this range
    std::map<ValueId, int> stored;             // values stored in this range, with the step that waits
    for (int step = range.begin; step < range.end; ++step) {
      const Step& what = plan_.timeline.steps[static_cast<std::size_t>(step)];
      if (what.kind != Step::Kind::node) continue;
      const Node& node = graph_.nodes[what.node];
      if (node.op->transfer == Transfer::stored) {
        for (const ValueId output : node.outputs) stored[origin(output)] = step;
      }
      if (!node.pages.valid()) continue;
      const auto present = stream_of.find(node.pages);
      const bool joins = step != streams_with(graph_, plan_.timeline, step).begin;
      const bool waits = !joins && std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
        if (graph_.values[input].tier == 0) return false;
        const auto at = stored.find(origin(input));
        const bool late = at != stored.end() && present != stream_of.end() && at->second >= begins[present->second];
        return late || written.contains(origin(input));
      });
      const auto [found, fresh] = stream_of.emplace(node.pages, streams.size());
      if (fresh || waits) {
        found->second = streams.size();
        streams.emplace_back();
        begins.push_back(step);
      }
      RunKernel run;
      run.node = what.node;
      give_window(run);
      give_scratch(run, step);
      std::vector<StreamedNodes>& nodes = streams[found->second];
      if (!joins) nodes.emplace_back();
      nodes.back().push_back(std::move(run));
      for (const ValueId output : node.outputs) written.insert(origin(output));
    }
    Streamed streamed;
    for (const std::vector<StreamedNodes>& nodes : streams) {
      auto instructions =
          stream_nodes(graph_, program_.operands, plan_.decisions.residency, plan_.timeline.rounds, nodes, streamed.events);
      for (std::size_t i = 0; i < nodes.size(); ++i) {
        for (const Instruction& instruction : instructions[i]) {
          if (const auto* copy = std::get_if<StartCopy>(&instruction)) {
            streamed.events = std::max(streamed.events, copy->event + 1);
          }
        }
        for (const RunKernel& run : nodes[i]) streamed.of[run.node] = {};
        streamed.of[nodes[i].front().node] = std::move(instructions[i]);
      }
    }
    return streamed;
  }

  std::vector<Instruction> section(StepRange range) const {
    Streamed streamed = stream(range);
    Copies copies(graph_, program_.operands, plan_.decisions.residency, plan_.timeline.rounds, streamed.events);
    std::vector<Instruction> instructions;
    for (int step = range.begin; step < range.end; ++step) {
      const Step& what = plan_.timeline.steps[static_cast<std::size_t>(step)];
      const auto pieces = what.kind == Step::Kind::node ? streamed.of.find(what.node) : streamed.of.end();
      if (pieces != streamed.of.end()) {
        std::move(pieces->second.begin(), pieces->second.end(), std::back_inserter(instructions));
      } else if (what.kind == Step::Kind::node && graph_.nodes[what.node].op->transfer != Transfer::none) {
        copies.append(graph_.nodes[what.node], instructions);
      } else if (what.kind == Step::Kind::node && graph_.nodes[what.node].op->exchange != Exchange::none) {
        append_exchange(graph_, kernel(step, what.node), instructions);
      } else {
        instructions.push_back(instruction(step));
      }
    }
    return instructions;
  }

  Instruction instruction(int step) const {
    const Step& what = plan_.timeline.steps[static_cast<std::size_t>(step)];
    const StepAccess access = access_of(graph_, what, false);
    switch (what.kind) {
      case Step::Kind::load: return LoadState{operands(access.writes)};
      case Step::Kind::save: return SaveState{operands(access.reads)};
      case Step::Kind::feed: return Feed{what.section, staging(what.section), operands(access.writes)};
      case Step::Kind::fetch: return Fetch{operands(access.reads)};
      case Step::Kind::node: return kernel(step, what.node);
    }
    throw internal_error("lower", "unknown step");
  }

  // The staging from which a section's inputs are unpacked.
  std::vector<Operand> staging(Section section) const {
    std::vector<Operand> result;
    if (!graph_.sums(section)) return result;
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      if (graph_.values[ValueId{i}].role == Role::staging) result.push_back(program_.operands[ValueId{i}]);
    }
    return result;
  }

  RunKernel kernel(int step, NodeId id) const {
    const Node& node = graph_.nodes[id];
    RunKernel run;
    run.node = id;
    run.inputs = operands(node.inputs);
    run.outputs = operands(node.outputs);
    give_window(run);
    give_scratch(run, step);
    return run;
  }

  void give_window(RunKernel& run) const {
    const Node& node = graph_.nodes[run.node];
    run.starts_window = starts_window(graph_, node);
    run.starts_round = starts_round(graph_, node);
    for (const Alias& alias : aliases_of(*node.op, node.attributes)) {
      const bool written_first = alias.kind == AliasKind::accumulates && run.starts_window;
      if (!written_first || !comes_from_before(graph_, node.inputs[alias.input])) continue;
      run.accumulators.push_back(alias.input);
    }
  }

  void give_scratch(RunKernel& run, int step) const {
    const BufferId scratch = plan_.lifetimes.scratch[static_cast<std::size_t>(step)];
    const StepKernel& chosen = plan_.kernels[static_cast<std::size_t>(step)];
    if (scratch.valid()) {
      run.scratch = {0, 0, plan_.offsets[scratch.index], chosen.scratch(), {}};
    }
    run.foreign_scratch = chosen.add.primitives > 0 || chosen.write.primitives > 0;
  }

  const Plan& plan_;
  const Graph& graph_;
  Program program_;
};

}  // namespace

Program lower(const Plan& plan) { return Lowering(plan).run(); }

const std::vector<Instruction>& Program::of(Section section) const {
  if (section == Section::micro) return micro;
  if (section == Section::update) return update;
  return forward.at(static_cast<std::size_t>(section) - static_cast<std::size_t>(Section::forward));
}

std::vector<const std::vector<Instruction>*> Program::sections() const {
  std::vector<const std::vector<Instruction>*> all{&micro, &update};
  for (const std::vector<Instruction>& pass : forward) all.push_back(&pass);
  return all;
}

std::optional<Section> Program::section_of(const Instruction& instruction) const {
  const auto within = [&](const std::vector<Instruction>& list) {
    return !std::less<>()(&instruction, list.data()) && std::less<>()(&instruction, list.data() + list.size());
  };
  if (within(micro)) return Section::micro;
  if (within(update)) return Section::update;
  for (std::size_t pass = 0; pass < forward.size(); ++pass) {
    if (within(forward[pass])) return forward_section(pass);
  }
  return {};
}

}  // namespace plimsoll
