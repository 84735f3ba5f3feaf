#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "program/copies.h"
#include "program/program.h"
#include "program/stream.h"

namespace plimsoll {
namespace {

class Lowering {
 public:
  explicit Lowering(const Plan& plan) : plan_(plan), graph_(plan.graph) {}

  Program run() {
    program_.arena = plan_.arena;
    program_.accumulation = plan_.timeline.accumulation;
    place_operands();
    find_ring();
    const Timeline& timeline = plan_.timeline;
    program_.load = section(timeline.load);
    program_.micro = section(timeline.micro);
    program_.update = section(timeline.update);
    program_.evaluate = section(timeline.evaluate);
    program_.save = section(timeline.save);
    program_.generate = section(timeline.generate);
    return std::move(program_);
  }

 private:
  ValueId origin(ValueId value) const { return origin_of(graph_, value); }

  void find_ring() {
    for (const Node& node : graph_.nodes) {
      if (node.pages.valid()) program_.ring = program_.operands[node.pages];
    }
  }

  void place_operands() {
    program_.operands.resize(graph_.values.size());
    const StoredLayout stored = stored_layout(graph_);
    program_.stored = stored.end;
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      const ValueId id{i};
      const BufferId buffer = plan_.lifetimes.buffer_of[id];
      const Value& value = graph_.values[id];
      if (value.tier != 0) program_.operands[id] = {value.tier, 0, stored.offsets[origin(id)], value.bytes(), origin(id)};
      if (!buffer.valid()) continue;
      program_.operands[id] = {0, 0, plan_.offsets[buffer.index], value.bytes(), origin(id)};
      if (!value.persistent()) continue;
      const bool always = plan_.lifetimes.buffers[buffer].persistent;
      (always ? program_.persistent : program_.window).push_back(program_.operands[id]);
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

  std::vector<Instruction> section(StepRange range) const {
    const auto streams = [&](int step) {
      const Step& what = plan_.timeline.steps[static_cast<std::size_t>(step)];
      return what.kind == Step::Kind::node && !streamed_inputs(graph_, graph_.nodes[what.node]).empty();
    };
    std::vector<RunKernel> streamed;
    for (int step = range.begin; step < range.end; ++step) {
      if (!streams(step)) continue;
      streamed.push_back({});
      streamed.back().node = plan_.timeline.steps[static_cast<std::size_t>(step)].node;
      give_scratch(streamed.back(), step);
    }
    auto pieces = stream_nodes(graph_, program_.operands, plan_.decisions.paging, streamed);
    auto next = pieces.begin();
    Copies copies(graph_, program_.operands, plan_.decisions.paging, plan_.timeline.accumulation, pieces);
    std::vector<Instruction> instructions;
    for (int step = range.begin; step < range.end; ++step) {
      const Step& what = plan_.timeline.steps[static_cast<std::size_t>(step)];
      if (streams(step)) {
        std::move(next->begin(), next->end(), std::back_inserter(instructions));
        ++next;
      } else if (what.kind == Step::Kind::node && graph_.nodes[what.node].op->transfer != Transfer::none) {
        copies.append(graph_.nodes[what.node], instructions);
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

  // What a section's inputs are unpacked from.
  std::vector<Operand> staging(Section section) const {
    std::vector<Operand> result;
    if (section != Section::micro && section != Section::evaluate) return result;
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      if (graph_.values[ValueId{i}].role == Role::staging) result.push_back(program_.operands[ValueId{i}]);
    }
    return result;
  }

  RunKernel kernel(int step, NodeId id) const {
    const Node& node = graph_.nodes[id];
    RunKernel run{id, operands(node.inputs), operands(node.outputs), {}, starts_window(graph_, node), {}, false};
    for (const NodeAlias& alias : aliases_of(graph_, node)) {
      if (alias.kind != AliasKind::updates || !comes_from_before(graph_, alias.input) || !run.starts_window) continue;
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] == alias.input) run.accumulators.push_back(i);
      }
    }
    give_scratch(run, step);
    return run;
  }

  void give_scratch(RunKernel& run, int step) const {
    const BufferId scratch = plan_.lifetimes.scratch[static_cast<std::size_t>(step)];
    const StepKernel& chosen = plan_.kernels[static_cast<std::size_t>(step)];
    if (scratch.valid()) {
      run.scratch = {0, 0, plan_.offsets[scratch.index], std::max(chosen.add.scratch, chosen.write.scratch), {}};
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
  switch (section) {
    case Section::micro: return micro;
    case Section::update: return update;
    case Section::evaluate: return evaluate;
    case Section::generate: return generate;
  }
  throw internal_error("program", "unknown section");
}

}  // namespace plimsoll
