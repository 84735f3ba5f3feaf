// The timer: every instruction of every run, sums of the runs, and no change of the training.
#include "run/instruction_timer.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "profile/op_seconds.h"
#include "run/session.h"

namespace plimsoll {
namespace {

const ModelShape kShape{3, 16, 2, 8, 33};

struct TimerOfTraining : ::testing::Test {
  TokenData data{kShape.vocab, 400, 90};
  Config config = config_for(kShape, 4);
  Plan plan = plan_with(config, 1, {BlockMode::recompute}, 1, data.facts());
};

TEST_F(TimerOfTraining, SumsEveryRunOfEachInstruction) {
  Session session(config, plan, data.files);
  const Program& program = session.program();
  InstructionTimer timer(program, plan.graph, session.device());
  session.watch(timer);
  std::vector<double> micro(program.micro.size(), 0), update(program.update.size(), 0);
  int sections = 0;
  double before = 0;
  timer.after_section([&](Section section, bool window_start, double begin) {
    EXPECT_GE(begin, before);
    before = begin;
    EXPECT_EQ(window_start, sections % 5 == 0);
    std::vector<double>& sums = section == Section::micro ? micro : update;
    float end = 0;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const InstructionTimer::Span span = timer.last(section, i);
      ASSERT_TRUE(span.ran());
      EXPECT_GE(span.begin, end * (1 - 1e-6F));
      end = span.begin + span.seconds;
      sums[i] += span.seconds;
    }
    ++sections;
  });
  session.train(2);
  EXPECT_EQ(sections, 10);
  EXPECT_EQ(timer.runs(Section::micro).starting, 2);
  EXPECT_EQ(timer.runs(Section::micro).later, 6);
  EXPECT_EQ(timer.runs(Section::update).all(), 2);
  for (std::size_t i = 0; i < micro.size(); ++i) EXPECT_DOUBLE_EQ(timer.seconds(Section::micro, i).all(), micro[i]);
  for (std::size_t i = 0; i < update.size(); ++i) EXPECT_DOUBLE_EQ(timer.seconds(Section::update, i).all(), update[i]);
  timer.clear();
  EXPECT_EQ(timer.runs(Section::micro).all(), 0);
  EXPECT_EQ(timer.seconds(Section::micro, 0).all(), 0);
}

TEST_F(TimerOfTraining, ChangesNoBit) {
  Session plain(config, plan, data.files), timed(config, plan, data.files);
  InstructionTimer timer(timed.program(), plan.graph, timed.device());
  timed.watch(timer);
  EXPECT_EQ(plain.train(3), timed.train(3));
}

// The kinds add up to all instructions; each kernel has an op, a section and a bound.
TEST_F(TimerOfTraining, KindsAddUp) {
  Session session(config, plan, data.files);
  InstructionTimer timer(session.program(), plan.graph, session.device());
  session.watch(timer);
  session.train(2);
  double all = 0;
  std::int64_t kernels = 0;
  for (const Section section : {Section::micro, Section::update}) {
    const std::vector<Instruction>& instructions = session.program().of(section);
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      all += timer.seconds(section, i).all();
      if (std::holds_alternative<RunKernel>(instructions[i])) kernels += timer.runs(section).all();
    }
  }
  const SecondsByKind kinds = seconds_by_kind(plan.graph, session.program(), timer, round_machine().rates);
  EXPECT_NEAR(kinds.all(), all, 1e-9);
  EXPECT_GT(kinds.kernels, 0);
  EXPECT_GT(kinds.update, 0);
  EXPECT_GT(kinds.feed, 0);
  double ops = 0;
  std::int64_t runs = 0;
  bool again = false;
  for (const OpSeconds& op : kinds.ops) {
    ops += op.seconds;
    runs += op.runs;
    again = again || op.op.ends_with(" again");
    EXPECT_GT(op.bound, 0) << op.op;
    EXPECT_TRUE(op.section == "micro" || op.section == "update") << op.section;
  }
  EXPECT_NEAR(ops, kinds.kernels + kinds.update, 1e-9);
  EXPECT_EQ(runs, kernels);
  EXPECT_TRUE(again);
}

// The first micro-step of a window leaves out the copies of sums that it only writes.
TEST(InstructionTimer, TellsWhichInstructionsARunLeftOut) {
  struct Left : RunObserver {
    void before(const Instruction&, bool) override { ++ran; }
    void after(const Instruction&, bool) override {}
    int ran = 0;
  };
  Config config = config_for(kShape, 4);
  config.memory.disk = DiskBudget{".", kGiB};
  config.plan.optimizer_state = config.plan.parameters = config.plan.gradients = RestPolicy::disk;
  config.train.micro_batch = 1;
  const TokenData data(kShape.vocab, 400, 90);
  Planner planner(config, data.facts());
  const Plan plan = planner.plan(planner.space.floor());
  Session session(config, plan, data.files);
  InstructionTimer timer(session.program(), plan.graph, session.device());
  Left left;
  session.watch(timer);
  session.watch(left);
  std::vector<int> missing;
  timer.after_section([&](Section section, bool, double) {
    int ran = 0;
    for (const InstructionTimer::Span& span : timer.last(section)) ran += span.ran() ? 1 : 0;
    missing.push_back(static_cast<int>(timer.last(section).size()) - ran);
    EXPECT_EQ(ran, std::exchange(left.ran, 0) - (missing.size() == 1 ? 1 : 0));  // the load is in no section
  });
  session.train(1);
  ASSERT_EQ(missing.size(), 5U);
  EXPECT_GT(missing.front(), 0);
  EXPECT_EQ(std::vector<int>(missing.begin() + 1, missing.end()), std::vector<int>(4, 0));
  EXPECT_GT(seconds_by_kind(plan.graph, session.program(), timer, round_machine().rates).copies, 0);
}

// The calls for an instruction take far less than a kernel: the least of many attempts, as other processes run here, too.
TEST(InstructionTimer, CostsLittle) {
  const TokenData data(kShape.vocab, 400, 90);
  const Config config = config_for(kShape, 4);
  const Plan plan = plan_with(config, 1, {BlockMode::keep}, 1, data.facts());
  Session session(config, plan, data.files);
  InstructionTimer timer(session.program(), plan.graph, session.device());
  const std::vector<Instruction>& micro = session.program().micro;
  double least = 1;
  for (int attempt = 0; attempt < 2000; ++attempt) {
    const double start = seconds_now();
    for (const Instruction& instruction : micro) {
      timer.before(instruction, true);
      timer.after(instruction, true);
    }
    least = std::min(least, (seconds_now() - start) / static_cast<double>(micro.size()));
  }
  RecordProperty("nanoseconds", static_cast<int>(1e9 * least));
  EXPECT_LT(least, 1e-6);
}

TEST(InstructionTimer, TakesTheCountedBytes) {
  const Plan plan = plan_with(config_for(kShape, 4), 2, {BlockMode::keep}, 1);
  const Program program = lower(plan);
  std::size_t instructions = 0;
  NullDevice device;
  const InstructionTimer timer(program, plan.graph, device);
  for (const Section section : plan.graph.sections()) instructions += timer.last(section).size();
  EXPECT_EQ(InstructionTimer::bytes_for(program).n, static_cast<std::int64_t>(24 * instructions));
}

}  // namespace
}  // namespace plimsoll
