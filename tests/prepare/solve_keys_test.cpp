// Keys of plan --solve: their cases, and the changes for a value.
#include "prepare/solve_keys.h"

#include <gtest/gtest.h>

#include "formats/expect_error.h"
#include "prepare/small_training.h"

namespace plimsoll {
namespace {

TEST(SolveKey, CasesAreMultiplesOfItsStep) {
  const SolveKey key{.step = 4, .with = {}};
  EXPECT_EQ(key.value_of(0), 4);
  EXPECT_EQ(key.value_of(9), 40);
  EXPECT_EQ(key.number_of(40), 9);
  EXPECT_EQ(key.number_of(43), 9);
  EXPECT_EQ(key.number_of(1), 0) << "all values are larger";
}

TEST(SolveKey, CasesOfABudgetBeginWithNothing) {
  const SolveKey key{.budget = SolvedBudget::memory, .step = 4096, .with = {}};
  EXPECT_EQ(key.value_of(0), 0);
  EXPECT_EQ(key.value_of(2), 8192);
  EXPECT_EQ(key.number_of(8191), 1);
  EXPECT_EQ(key.number_of(0), 0);
}

TEST(SolveKey, CasesOfAListAreItsValues) {
  const SolveKey key{.values = {1, 2, 5, 10}, .with = {}};
  for (std::int64_t number = 0; number < std::ssize(key.values); ++number) EXPECT_EQ(key.number_of(key.value_of(number)), number);
  EXPECT_EQ(key.number_of(4), 1) << "the largest value up to 4 is 2";
  EXPECT_EQ(key.number_of(99), 3);
  EXPECT_EQ(key.number_of(0), 0);
  EXPECT_GT(key.value_of(4), 10) << "no value of the list";
}

TEST(SolveKey, IsFoundByItsNameOrTheLastPart) {
  const SmallTraining training;
  for (const char* name : {"context", "model.context"}) {
    const SolveKey key = solve_key(name, training.config, training.input());
    EXPECT_EQ(key.name, "model.context");
    EXPECT_EQ(key.now, 32);
    EXPECT_EQ(key.budget, SolvedBudget::none);
    EXPECT_EQ(key.with(48), (Changes{{"model.context", 48}}));
  }
}

TEST(SolveKey, AnUnknownOneNamesTheNearest) {
  const SmallTraining training;
  EXPECT_ERROR(solve_key("seed", training.config, training.input()), "E-SOLVE-KEY", "model.context");
  try {
    solve_key("contxt", training.config, training.input());
    ADD_FAILURE() << "it is no key";
  } catch (const Error& error) {
    EXPECT_EQ(error.remedies, Remedies{Change("command.solve", "context")});
  }
}

TEST(SolveKey, NamesWhatItNeeds) {
  const SmallTraining training;
  EXPECT_ERROR(solve_key("disk", training.config, training.input()), "E-CONFIG-MISSING", "no folder");
  EXPECT_ERROR(solve_key("host_memory", training.config, training.input()), "E-CONFIG-MISSING", "device and a host");
  PlanningInput with_host = training.input();
  with_host.machine.machine = round_device();
  EXPECT_EQ(solve_key("host_memory", training.config, with_host).budget, SolvedBudget::host_memory);
}

TEST(SolveKey, MicroBatchesDivideTheBatch) {
  const SmallTraining training;
  const SolveKey key = solve_key("micro_batch", training.config, training.input());
  EXPECT_EQ(key.values, (std::vector<std::int64_t>{1, 2, 3, 4, 6, 12}));
  EXPECT_EQ(key.now, 1);
  const ChangedConfig changed = with_changes(training.input(), key.with(6));
  EXPECT_EQ(changed.request.micro_batch, 6);
  EXPECT_EQ(changed.request.effective_batch, 12);
}

TEST(SolveKey, ALargerBatchKeepsAGivenMicroBatch) {
  const SmallTraining open, given("micro_batch = 3\n");
  const SolveKey free = solve_key("effective_batch", open.config, open.input());
  EXPECT_EQ(free.step, 1);
  EXPECT_EQ(free.with(13), (Changes{{"train.effective_batch", 13}}));
  const SolveKey fixed = solve_key("effective_batch", given.config, given.input());
  EXPECT_EQ(fixed.step, 3);
  EXPECT_EQ(fixed.now, 12);
  const ChangedConfig changed = with_changes(given.input(), fixed.with(15));
  EXPECT_EQ(changed.request.effective_batch, 15);
  EXPECT_EQ(changed.request.micro_batch, 3);
}

TEST(SolveKey, BudgetsBecomeBudgets) {
  const SmallTraining training;
  PlanningInput input = training.input();
  input.budget.memory = kGiB;
  const SolveKey key = solve_key("memory", training.config, input);
  EXPECT_EQ(key.budget, SolvedBudget::memory);
  EXPECT_EQ(key.now, kGiB.n);
  EXPECT_EQ(with_changes(input, key.with(kMiB.n * 300)).budget.memory, kMiB * 300);
  const SmallTraining with_disk("[memory]\ndisk = \"/tmp:2GiB\"\n");
  const SolveKey disk = solve_key("disk", with_disk.config, with_disk.input());
  EXPECT_EQ(disk.now, kGiB.n * 2);
  EXPECT_EQ(with_changes(with_disk.input(), disk.with(kMiB.n)).budget.disk, kMiB);
}

}  // namespace
}  // namespace plimsoll
