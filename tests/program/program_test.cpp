// Lowering and the rules of `verify`: the program of a plan, and corrupt programs that are refused with the node's name.

#include "program/program.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "plan/small_models.h"

namespace plimsoll {
namespace {

const Plan& sound_plan() {
  static const Plan plan = plan_with(config_for(kShapes[0], 4), 2, {BlockMode::cheap, BlockMode::recompute}, 2);
  return plan;
}

TEST(Lower, WritesOneInstructionPerStep) {
  const Plan& plan = sound_plan();
  const Program program = lower(plan);
  const auto length = [](StepRange range) { return static_cast<std::size_t>(range.end - range.begin); };
  EXPECT_EQ(program.load.size(), length(plan.timeline.load));
  EXPECT_EQ(program.micro.size(), length(plan.timeline.micro));
  EXPECT_EQ(program.update.size(), length(plan.timeline.update));
  ASSERT_EQ(program.forward.size(), 1U);
  EXPECT_EQ(program.forward[0].size(), length(plan.timeline.forward[0]));
  EXPECT_EQ(program.save.size(), length(plan.timeline.save));
  EXPECT_EQ(program.arena, plan.arena);
  EXPECT_EQ(program.rounds, 2);
  EXPECT_NO_THROW(verify(program, plan.graph));
}

TEST(Lower, OperandsLieWhereThePlanPutsThem) {
  const Plan& plan = sound_plan();
  const Program program = lower(plan);
  for (const Instruction& instruction : program.micro) {
    const auto* kernel = std::get_if<RunKernel>(&instruction);
    if (kernel == nullptr) continue;
    const Node& node = plan.graph.nodes[kernel->node];
    ASSERT_EQ(kernel->inputs.size(), node.inputs.size());
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const BufferId buffer = plan.lifetimes.buffer_of[node.inputs[i]];
      EXPECT_EQ(kernel->inputs[i].offset, plan.offsets[buffer.index]);
      EXPECT_EQ(kernel->inputs[i].bytes, plan.graph.values[node.inputs[i]].bytes());
    }
  }
}

TEST(Lower, EveryAccumulatorIsStartedOnceAWindow) {
  const Plan& plan = sound_plan();
  const Program program = lower(plan);
  std::map<ValueId, int> started;
  for (const Instruction& instruction : program.micro) {
    const auto* kernel = std::get_if<RunKernel>(&instruction);
    if (kernel == nullptr || !kernel->starts_window) continue;
    EXPECT_FALSE(kernel->accumulators.empty());
    for (const std::size_t i : kernel->accumulators) ++started[kernel->inputs[i].value];
  }
  std::size_t accumulators = 0;
  for (std::size_t i = 0; i < plan.graph.values.size(); ++i) {
    const Value& value = plan.graph.values[ValueId{i}];
    if (!value.persistent() || value.role != Role::accumulator) continue;
    ++accumulators;
    EXPECT_EQ(started[ValueId{i}], 1) << value.name.text();
  }
  EXPECT_EQ(program.window.size(), accumulators + 1) << "and the loss total";
}

TEST(Lower, PrintsALineForEachInstruction) {
  const Plan& plan = sound_plan();
  const Program program = lower(plan);
  const std::string text = to_text(program, plan.graph);
  const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  EXPECT_EQ(lines,
            program.load.size() + program.micro.size() + program.update.size() + program.forward[0].size() + program.save.size());
  EXPECT_NE(text.find(": h.0.attn.c_attn (matmul) r[0x"), std::string::npos) << text;
}

// Applies `change` to the first kernel that it accepts; expects verify to name the node.
void expect_refused(const std::function<bool(RunKernel&)>& change, const std::string& words) {
  const Plan& plan = sound_plan();
  Program program = lower(plan);
  for (Instruction& instruction : program.micro) {
    auto* kernel = std::get_if<RunKernel>(&instruction);
    if (kernel == nullptr || !change(*kernel)) continue;
    try {
      verify(program, plan.graph);
      ADD_FAILURE() << "accepted; expected: " << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind, ErrorKind::internal);
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(plan.graph.nodes[kernel->node].line), std::string::npos) << error.what();
    }
    return;
  }
  ADD_FAILURE() << "no kernel to change for: " << words;
}

TEST(Verify, RefusesAMisalignedOperand) {
  expect_refused([](RunKernel& kernel) { return kernel.inputs.at(0).offset += Bytes{4}, true; }, "is not aligned");
}

TEST(Verify, RefusesAnOperandBeyondTheArena) {
  expect_refused([](RunKernel& kernel) { return kernel.outputs.at(0).offset = sound_plan().arena, true; }, "leaves the arena");
  expect_refused([](RunKernel& kernel) { return kernel.outputs.at(0).offset = Bytes{} - kAlignment, true; }, "leaves the arena");
}

TEST(Verify, RefusesAnOutputOverAnInputThatTheOpDoesNotAllow) {
  expect_refused(
      [](RunKernel& kernel) {
        const Node& node = sound_plan().graph.nodes[kernel.node];
        if (node.op->elementwise || !aliases_of(*node.op, node.attributes).empty()) return false;
        if (kernel.inputs.at(0).bytes > kernel.outputs.at(0).bytes) return false;
        kernel.inputs[0].offset = kernel.outputs[0].offset;
        return true;
      },
      "overlaps input");
}

TEST(Verify, RefusesAPartialOverlapWhereSharingIsAllowed) {
  expect_refused(
      [](RunKernel& kernel) {
        const Node& node = sound_plan().graph.nodes[kernel.node];
        for (const Alias& alias : aliases_of(*node.op, node.attributes)) {
          if (!in_place(alias.kind) || kernel.inputs[alias.input].bytes <= kAlignment) continue;
          kernel.outputs[alias.output].offset += kAlignment;
          return true;
        }
        return false;
      },
      "overlap");
}

TEST(Verify, RefusesScratchOverAnOperand) {
  expect_refused(
      [](RunKernel& kernel) {
        if (kernel.scratch.bytes.n == 0) return false;
        kernel.scratch.offset = kernel.inputs.at(0).offset;
        return true;
      },
      "scratch overlaps");
}

TEST(Verify, RefusesTwoOutputsInOnePlace) {
  expect_refused(
      [](RunKernel& kernel) {
        if (kernel.outputs.size() < 2) return false;
        kernel.outputs[1].offset = kernel.outputs[0].offset;
        return true;
      },
      "two outputs overlap");
}

// State is loaded before a run and saved after it. All of it must lie within the arena, aligned to cache lines.
TEST(Verify, ChecksLoadFeedFetchAndSaveAsWell) {
  const Plan& plan = sound_plan();
  const auto refused = [&](const std::function<void(Program&)>& change) {
    Program program = lower(plan);
    change(program);
    EXPECT_THROW(verify(program, plan.graph), Error);
  };
  refused([&](Program& program) { std::get<LoadState>(program.load.at(0)).writes.at(0).offset = plan.arena; });
  refused([&](Program& program) { std::get<SaveState>(program.save.at(0)).reads.at(0).offset += Bytes{4}; });
  refused([&](Program& program) { std::get<Feed>(program.micro.at(0)).writes.at(0).offset = plan.arena; });
  refused([&](Program& program) { std::get<Fetch>(program.update.back()).reads.at(0).offset = Bytes{} - kAlignment; });
}

}  // namespace
}  // namespace plimsoll
