// The planned bytes written to a disk equal the count of its store, to the byte. After loading, none of them are frozen.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "run/moved.h"
#include "run/session.h"

namespace plimsoll {
namespace {

const ModelShape kShape{3, 128, 4, 11, 301};

struct Case {
  std::string name;
  std::int64_t micro = 2;
  Residency residency;
  std::int64_t group = 1;
  BlockMode mode = BlockMode::keep;
  AdapterKind adapter = AdapterKind::none;
  BaseFormat base = BaseFormat::none;
  DType compute = DType::f32, state = DType::f32;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

constexpr Residency kState{.pages = {kPageStep, 2}, .optimizer_state = kBeyond},
    kAll{.pages = {kPageStep, 3}, .optimizer_state = kBeyond, .parameters = kBeyond, .accumulators = kBeyond, .tables = kBeyond};

Residency narrow() {
  Residency residency = kAll;
  residency.by_matrix = true;
  return residency;
}

Residency resident() {
  Residency residency = kAll;
  residency.tables.beyond = false;
  residency.keep(1);
  return residency;
}

Config config_of(const Case& one) {
  Config config = config_for(kShape, 4, 0.1);
  config.memory.disk = DiskBudget{std::filesystem::temp_directory_path(), kGiB};
  config.adapter.kind = one.adapter;
  config.adapter.rank = 16;
  config.base = one.base;
  config.precision.compute = config.precision.parameters = one.compute;
  config.precision.optimizer_state = one.state;
  return config;
}

class WrittenBy : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Plan, WrittenBy,
    testing::Values(
        Case{"in_memory", 2, {}}, Case{"state", 2, kState},
        Case{"large_pages", 4, {.pages = {1 << 20, 4}, .optimizer_state = kBeyond}}, Case{"all", 1, kAll},
        Case{"narrow", 1, narrow()}, Case{"resident_blocks", 2, resident()}, Case{"group", 1, kAll, 4},
        Case{"half_group", 1, kAll, 2},
        Case{
            "activations", 2, {.pages = {kPageStep, 4}, .optimizer_state = {.beyond = true, .kept = 2}}, 1, BlockMode::recompute},
        Case{"activations_beside_all",
             2,
             {.pages = {kPageStep, 4},
              .optimizer_state = kBeyond,
              .parameters = {.beyond = true, .kept = 1},
              .accumulators = {.beyond = true, .kept = 1}},
             1,
             BlockMode::recompute},
        Case{"bf16", 2, kAll, 1, BlockMode::keep, AdapterKind::none, BaseFormat::none, DType::bf16, DType::bf16},
        Case{"lora",
             2,
             {.pages = {kPageStep, 3}, .optimizer_state = kBeyond, .parameters = kBeyond, .accumulators = kBeyond},
             1,
             BlockMode::keep,
             AdapterKind::lora},
        Case{"dora",
             2,
             {.pages = {kPageStep, 3}, .optimizer_state = kBeyond, .parameters = kBeyond, .accumulators = kBeyond},
             1,
             BlockMode::keep,
             AdapterKind::dora},
        Case{"lora_on_int8",
             2,
             {.pages = {kPageStep, 3}, .optimizer_state = kBeyond, .parameters = kBeyond, .accumulators = kBeyond},
             1,
             BlockMode::keep,
             AdapterKind::lora,
             BaseFormat::int8},
        Case{"lora_on_nf4",
             1,
             {.pages = {kPageStep, 3}, .optimizer_state = kBeyond, .parameters = kBeyond, .accumulators = kBeyond},
             2,
             BlockMode::keep,
             AdapterKind::lora,
             BaseFormat::nf4}),
    [](const auto& info) { return info.param.name; });

bool frozen(const Graph& graph, ValueId id) { return is_frozen(graph.values[id]); }

TEST_P(WrittenBy, IsWhatThePlanSays) {
  const Case& one = GetParam();
  const TokenData data(kShape.vocab, 400, 90);
  const Config config = config_of(one);
  const Plan plan = plan_with(config, one.micro, {one.mode}, 1, data.facts(), one.residency, one.group);
  Session session(config, plan, data.files);
  const Written planned = written_by(session.program(), plan.graph, 1);
  const auto counted = [&] { return session.pages() == nullptr ? Bytes{} : session.pages()->wear(); };
  session.trainer().load(nullptr);
  EXPECT_EQ(counted(), planned.load);
  for (int update = 1; update <= 2; ++update) {
    session.trainer().update();
    EXPECT_EQ(counted(), planned.load + planned.update * update) << "after update " << update;
  }
  const ScratchFolder folder;
  session.trainer().evaluate_now();
  session.trainer().save_checkpoint_to(folder / "checkpoint");
  session.trainer().save_weights_to(folder / "weights");
  EXPECT_EQ(counted(), planned.load + planned.update * 2) << "only updates write";
  EXPECT_EQ(planned.update.n > 0, one.residency.active());
  EXPECT_EQ(planned.load.n > 0, one.residency.parameters.beyond);
}

// The counter knows no values. So the test sums the bytes on the disk: frozen ones once, and none of them in an update.
TEST_P(WrittenBy, HoldsNothingFrozenAfterLoading) {
  const Case& one = GetParam();
  const TokenData data(kShape.vocab, 400, 90);
  const Config config = config_of(one);
  const Plan plan = plan_with(config, one.micro, {one.mode}, 1, data.facts(), one.residency, one.group);
  const Program program = lower(plan);
  std::map<bool, Bytes> resting;
  for (const ValueId id : plan.graph.parameters()) {
    const Operand& operand = program.operands[id];
    if (operand.tier == 1) resting[frozen(plan.graph, id)] += align_up(operand.bytes, kStoredAlignment);
  }
  EXPECT_EQ(resting[true].n > 0, one.residency.parameters.beyond && one.adapter != AdapterKind::none);
  EXPECT_EQ(written_by(program, plan.graph, 1).load, resting[true] + resting[false]);
  for (const std::vector<Instruction>* section : program.sections()) {
    for (const Instruction& instruction : *section) {
      const auto* copy = std::get_if<StartCopy>(&instruction);
      if (copy != nullptr && copy->to.tier == 1)
        EXPECT_FALSE(frozen(plan.graph, copy->to.value)) << describe(instruction, plan.graph);
    }
  }
}

}  // namespace
}  // namespace plimsoll
