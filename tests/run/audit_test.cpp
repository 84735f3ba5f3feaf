// In every phase of a run, the audit measures the planned height and load, without tolerance and for every budget.

#include "run/audit.h"

#include <gtest/gtest.h>

#include <set>

#include "run/instruction_timer.h"
#include "run/session.h"

namespace plimsoll {
namespace {

constexpr int kBudgets = 12;

void audit_one(const Config& config, const Plan& plan, const TokenData& data) {
  Session session(config, plan, data.files, Watch::audit);
  verify(session.program(), plan.graph);
  session.run_all_phases(data.files);
  const std::vector<PhaseAudit> phases = session.audit().phases();
  EXPECT_EQ(difference(plan, phases), "") << "micro-batch " << plan.decisions.micro_batch << " of " << plan.effective_batch;
  EXPECT_EQ(phases.size(), 3u + (plan.decisions.window().rounds() > 1) + (data.files.validation != nullptr));
  EXPECT_EQ(replay(plan, session.program()), "");
}

// Audits each distinct plan between floor and ceiling; returns how many there were.
std::size_t audit_all(const Config& config, const TokenData& data) {
  Planner planner(config, data.facts());
  const std::int64_t floor = planner.space.floor().n, ceiling = planner.space.ceiling().n;
  std::set<std::string> seen;
  for (int i = 0; i < kBudgets; ++i) {
    const Plan plan = planner.plan(Bytes{floor + (ceiling - floor) * i / (kBudgets - 1)});
    if (!seen.insert(plan.plan_hash).second) continue;
    audit_one(config, plan, data);
  }
  return seen.size();
}

class AuditOfShape : public ::testing::TestWithParam<ModelShape> {
 protected:
  TokenData data{GetParam().vocab, 400, 90};
};

TEST_P(AuditOfShape, EqualsThePlanForEveryBudget) {
  const std::size_t plans = audit_all(config_for(GetParam(), 4), data);
  printf("%zu different plans audited\n", plans);
  if (GetParam().layers == 3) EXPECT_GT(plans, 1u);  // where the update is the peak, one plan serves every budget
}

TEST_P(AuditOfShape, EqualsThePlanForRandomDecisions) {
  std::mt19937 random(11);
  for (int round = 0; round < 8; ++round) {
    std::vector<BlockChoice> modes;
    for (std::int64_t i = 0; i < GetParam().layers; ++i) {
      modes.push_back(round < 4 ? BlockChoice(BlockMode(random() % 5)) : random_choice(random));
    }
    const Plan plan = plan_with(config_for(GetParam(), 4), 1 << random() % 3, modes, 1 << random() % 4, data.facts());
    audit_one(config_for(GetParam(), 4), plan, data);
  }
}

TEST_P(AuditOfShape, EqualsThePlanForEverySplit) {
  for (const std::int64_t micro : {1, 2, 4}) {
    Config config = config_for(GetParam(), 4);
    config.train.micro_batch = micro;
    config.train.accumulation = 4 / micro;
    audit_all(config, data);
  }
}

TEST_P(AuditOfShape, EqualsThePlanWithoutValidationAndForOneSample) {
  const TokenData train_only(GetParam().vocab, 200, 0);
  audit_all(config_for(GetParam(), 1), train_only);
}

TEST_P(AuditOfShape, EqualsThePlanForEveryOptimizer) {
  for (const double momentum : {0.0, 0.9}) {
    for (const std::int64_t micro : {1, 2}) {
      Config config = config_for(GetParam(), 2);
      config.train.micro_batch = micro;
      config.train.accumulation = 2 / micro;
      config.optimizer.kind = OptimizerKind::sgd;
      config.optimizer.momentum = momentum;
      config.train.gradient_clip = momentum > 0 ? 0 : 1;
      audit_all(config, data);
    }
  }
}

TEST_P(AuditOfShape, EqualsThePlanForGivenDecisions) {
  for (const RecomputePolicy policy : {RecomputePolicy::none, RecomputePolicy::all}) {
    Config config = config_for(GetParam(), 6);
    config.plan.recompute = policy;
    config.plan.loss_chunks = 3;
    audit_all(config, data);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, AuditOfShape, ::testing::ValuesIn(kShapes), [](const auto& info) {
  return "L" + std::to_string(info.param.layers) + "C" + std::to_string(info.param.width) + "T" +
         std::to_string(info.param.context) + "V" + std::to_string(info.param.vocab);
});

TEST(Audit, EveryContextFromOneToSeven) {
  for (std::int64_t context = 1; context <= 7; ++context) {
    const ModelShape shape{2, 12, 2, context, 33};
    audit_all(config_for(shape, 3), TokenData(shape.vocab, 50, 20));
  }
}

TEST(Audit, HugeVocabularyOfATinyWidth) {
  const ModelShape shape{2, 8, 1, 9, 40009};
  audit_all(config_for(shape, 3), TokenData(shape.vocab, 60, 30));
}

TEST(NullDevice, RunsEveryProgram) {
  struct Counter : RunObserver {
    int seen = 0;
    void before(const Instruction&, bool) override { ++seen; }
    void after(const Instruction&, bool) override {}
  };
  for (const ModelShape& shape : kShapes) {
    const Plan plan = plan_with(config_for(shape, 4), 2, {BlockMode::recompute}, 2);
    const Program program = lower(plan);
    NullDevice device;
    Executor executor(plan.graph, program, device, 2, 2);
    Counter counter;
    executor.add_observer(counter);
    for (const Section section : plan.graph.sections()) executor.run(section, false, [](Section) {});
    executor.load([] {});
    executor.save([] {});
    EXPECT_EQ(static_cast<std::size_t>(counter.seen), plan.timeline.steps.size());
  }
}

// All observers see every instruction, one within the other.
TEST(Executor, TellsSeveralObservers) {
  struct Witness : RunObserver {
    Witness(std::string& told, std::string name) : told_(told), name_(std::move(name)) {}
    void before(const Instruction&, bool) override { told_ += "<" + name_; }
    void after(const Instruction&, bool) override { told_ += name_ + ">"; }
    std::string& told_;
    std::string name_;
  };
  const Plan plan = plan_with(config_for(kShapes[0], 4), 2, {BlockMode::keep}, 1);
  const Program program = lower(plan);
  NullDevice device;
  Executor executor(plan.graph, program, device, 2, 1);
  Audit audit(program, plan.graph, device, plan.arena + Session::kBeyond);
  InstructionTimer timer(program, plan.graph, device);
  std::string told, expected;
  Witness outer(told, "a"), inner(told, "b");
  for (RunObserver* each : std::initializer_list<RunObserver*>{&audit, &outer, &timer, &inner}) executor.add_observer(*each);
  audit.enter(Phase::load);
  executor.load([] {});
  audit.enter(Phase::first);
  executor.run(Section::micro, true, [](Section) {});
  for (std::size_t i = 0; i < program.load.size() + program.micro.size(); ++i) expected += "<a<bb>a>";
  EXPECT_EQ(told, expected);
  EXPECT_EQ(timer.runs(Section::micro).starting, 1);
  EXPECT_EQ(audit.phases().size(), 2U);
}

}  // namespace
}  // namespace plimsoll
