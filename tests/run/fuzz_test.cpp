// Random networks from description to audit: every plan between floor and ceiling is judged, verified, replayed on the `check`
// device and run under the audit, and trains to the same bits. PLIMSOLL_FUZZ_SEED=N runs one seed.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <functional>
#include <set>

#include "base/hash.h"
#include "plan/layout/judge.h"
#include "run/network_run.h"
#include "run/session.h"
#include "run/unusual_networks.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kEffective = 4;
constexpr unsigned kSeeds = 40, kSeedsBesideADisk = 12;

bool judged(const Plan& plan) {
  layout::Problem problem;
  problem.alignment = kAlignment.n;
  layout::Solution solution;
  for (std::size_t i = 0; i < plan.offsets.size(); ++i) {
    const Buffer& buffer = plan.lifetimes.buffers[BufferId{i}];
    const bool used = buffer.begin < buffer.end;
    problem.buffers.push_back({used ? buffer.begin : 0, used ? buffer.end : 0, buffer.bytes.n});
    solution.offsets.push_back(plan.offsets[i].n);
  }
  solution.height = layout::height_of(problem, solution.offsets);
  return layout::judge(problem, solution).empty();
}

// Two windows and a save, by hand, under the audit; the hash of the parameters and of both losses.
std::string train(const RandomNetwork& network, const Plan& plan, std::string& difference_found) {
  NetworkRun run(network, plan, kEffective);
  verify(run.program(), plan.graph);
  difference_found = replay(plan, run.program());
  if (!difference_found.empty()) return {};
  Audit audit(run.program(), plan.graph, run.device(), run.arena().mapped());
  run.executor().add_observer(audit);
  run.before_phase([&](Phase phase) { audit.enter(phase); });
  run.load();
  Hasher losses;
  for (int update = 0; update < 2; ++update) {
    run.update();
    for (const ValueId total : network.training.loss_totals) {
      losses.add(std::to_string(std::bit_cast<std::uint64_t>(run.executor().view(total).as<double>()[0])));
    }
  }
  run.save();
  difference_found = difference(plan, audit.phases());
  for (std::size_t tier = 1; tier < plan.stored.size(); ++tier) {
    const Bytes height = run.device().use_of(tier).value_or(TierUse{}).height;
    if (height != plan.stored[tier]) difference_found += " tier " + std::to_string(tier) + ": " + std::to_string(height.n);
  }
  return run.hash_parameters() + losses.hex();
}

// Instructions outside of updates write no unchanged values to a tier.
void expect_frozen_to_stay(const Graph& graph, const Program& program) {
  for (const Section section : graph.sections()) {
    for (const Instruction& instruction : program.of(section)) {
      const auto* copy = std::get_if<StartCopy>(&instruction);
      if (copy == nullptr || copy->to.tier == 0) continue;
      const auto& parameter = graph.values[origin_of(graph, copy->to.value)].parameter;
      EXPECT_TRUE(!parameter || parameter->kind == ParameterKind::trained)
          << graph.values[copy->to.value].name.text() << " goes back";
    }
  }
}

constexpr double kLastBits = 1 + 1e-9;

void run_seed(unsigned seed, const std::vector<Bytes>& beyond) {
  SCOPED_TRACE("PLIMSOLL_FUZZ_SEED=" + std::to_string(seed) + (beyond.empty() ? "" : " beside a disk"));
  for (const std::int64_t micro : {std::int64_t{1}, std::int64_t{2}, kEffective}) {
    if (!beyond.empty() && micro == 2) continue;
    const RandomNetwork network = random_network(seed, micro);
    PlanRequest request;
    request.effective_batch = kEffective;
    request.micro_batch = micro;
    request.units_per_sample = network.context;
    request.beyond = beyond;
    OpCatalogue catalogue = round_catalogue();
    PlanSpace space([&](std::int64_t) { return random_network(seed, micro).graph; }, request, round_machine(), catalogue);
    std::set<std::string> hashes;
    for (int i = 0; i < 4; ++i) {
      const Bytes budget{space.floor().n + (space.ceiling().n - space.floor().n) * i / 3};
      const auto best = space.best({budget, {}, {}});
      const Plan& plan = std::get<Plan>(best);
      EXPECT_LE(plan.process, budget);
      EXPECT_TRUE(judged(plan));
      EXPECT_LE(plan.bound_seconds.seconds(), plan.update_seconds * kLastBits);
      expect_frozen_to_stay(plan.graph, lower(plan));
      std::string found;
      hashes.insert(train(network, plan, found));
      EXPECT_EQ(found, "") << "micro-batch " << micro << ", budget " << i;
    }
    EXPECT_EQ(hashes.size(), 1u) << "micro-batch " << micro;
  }
}

// Twenty budgets from floor to ceiling: no byte over the plan, the same bits, never slower with more memory.
using Maker = std::function<RandomNetwork(std::int64_t batch)>;
void run_irregular(const Maker& make, const std::vector<Bytes>& beyond, std::size_t& with_replays, std::size_t& with_disk) {
  constexpr int kBudgets = 20;
  cpu::set_thread_count(2);
  for (const std::int64_t micro : {std::int64_t{1}, kEffective}) {
    const RandomNetwork network = make(micro);
    PlanRequest request;
    request.effective_batch = kEffective;
    request.micro_batch = micro;
    request.units_per_sample = network.context;
    request.beyond = beyond;
    OpCatalogue catalogue = round_catalogue();
    PlanSpace space([&](std::int64_t) { return make(micro).graph; }, request, round_machine(), catalogue);
    std::set<std::string> hashes, plans;
    double before = 1e30;
    for (int i = 0; i < kBudgets; ++i) {
      const Bytes budget{space.floor().n + (space.ceiling().n - space.floor().n) * i / (kBudgets - 1)};
      const auto best = space.best({budget, {}, {}});
      const Plan& plan = std::get<Plan>(best);
      EXPECT_LE(plan.process, budget);
      EXPECT_LE(plan.bound_seconds.seconds(), plan.update_seconds * kLastBits);
      EXPECT_LE(plan.update_seconds, before);
      before = plan.update_seconds;
      if (!plans.insert(plan.plan_hash).second) continue;
      with_replays += !plan.decisions.replays.empty();
      with_disk += plan.decisions.residency.active();
      EXPECT_TRUE(judged(plan));
      expect_frozen_to_stay(plan.graph, lower(plan));
      std::string found;
      hashes.insert(train(network, plan, found));
      EXPECT_EQ(found, "") << "micro-batch " << micro << ", budget " << i;
    }
    EXPECT_EQ(hashes.size(), 1u) << "micro-batch " << micro;
  }
}

// Frozen parameters come in, and have no sums and no state.
TEST(FrozenMatrices, EveryBudgetIsExactAndHasTheSameBitsBesideADisk) {
  const RandomNetwork network = frozen_network(1);
  for (const Value& value : network.graph.values) {
    if (value.persistent() && value.role != Role::parameter) EXPECT_LE(value.bytes(), kKiB * 2) << value.name.text();
  }
  std::size_t with_replays = 0, with_disk = 0;
  run_irregular(frozen_network, {kGiB}, with_replays, with_disk);
  EXPECT_GE(with_disk, 4u);
}

// Adapters over a base in each format.
TEST(Adapters, EveryBudgetIsExactAndHasTheSameBitsOverAnyBase) {
  for (const FrozenBase& base :
       {FrozenBase{BaseFormat::nf4}, {BaseFormat::nf4, /*nested=*/false}, {BaseFormat::int8}, {BaseFormat::bf16}}) {
    SCOPED_TRACE("format " + std::to_string(static_cast<int>(base.format)));
    const auto small = [&](std::int64_t batch) { return adapter_network(batch, 20, base); };
    const auto narrow = [&](std::int64_t batch) { return adapter_network(batch, 36, base, DType::bf16); };
    EXPECT_EQ(block_count(find_units(small(1).graph)), 5);
    std::size_t with_replays = 0, with_disk = 0;
    run_irregular(small, {}, with_replays, with_disk);
    run_irregular(narrow, {}, with_replays, with_disk);
  }
}

// It comes in from a disk, and nothing of it goes back.
TEST(Adapters, EveryBudgetIsExactAndHasTheSameBitsBesideADisk) {
  std::size_t with_replays = 0, with_disk = 0;
  run_irregular([](std::int64_t batch) { return adapter_network(batch, 1300, {BaseFormat::nf4}, DType::f32, 10); }, {kGiB},
                with_replays, with_disk);
  EXPECT_GE(with_disk, 2u);
}

// After any number of updates its bytes are those of loading, also on a disk.
TEST(Adapters, LeaveTheBaseAsItIs) {
  cpu::set_thread_count(2);
  for (const std::vector<Bytes>& beyond : {std::vector<Bytes>{}, {kGiB}}) {
    const auto make = [](std::int64_t batch) { return adapter_network(batch, 1300, {BaseFormat::nf4}, DType::f32, 10); };
    const RandomNetwork network = make(2);
    PlanRequest request;
    request.effective_batch = kEffective;
    request.micro_batch = 2;
    request.units_per_sample = network.context;
    request.beyond = beyond;
    OpCatalogue catalogue = round_catalogue();
    PlanSpace space([&](std::int64_t) { return make(2).graph; }, request, round_machine(), catalogue);
    const auto best = space.best({space.floor(), {}, {}});
    const Plan& plan = std::get<Plan>(best);
    EXPECT_EQ(plan.decisions.residency.active(), !beyond.empty());
    std::vector<ValueId> base;
    for (const ValueId id : plan.graph.parameters()) {
      if (plan.graph.values[id].parameter->blocks) base.push_back(id);
    }
    EXPECT_EQ(base.size(), 10u);
    NetworkRun run(network, plan, kEffective);
    run.load();
    const std::vector<std::string> before = hashes_of(base, run.executor());
    const std::string all = run.hash_parameters();
    for (int i = 0; i < 2; ++i) run.update();
    EXPECT_EQ(hashes_of(base, run.executor()), before);
    EXPECT_NE(run.hash_parameters(), all);
  }
}

// Their gradients add up in 16 bits. Each block casts the matrix for itself, so only x crosses from block to block.
TEST(SharedMatrix, EveryBudgetIsExactAndHasTheSameBits) {
  OptimizerSettings optimizer;
  optimizer.gradients = DType::bf16;
  for (const DType compute : {DType::f32, DType::bf16}) {
    const auto make = [&](std::int64_t batch) { return shared_network(batch, optimizer, compute); };
    EXPECT_EQ(block_count(find_units(make(1).graph)), 6);
    std::size_t with_replays = 0, with_disk = 0;
    run_irregular(make, {}, with_replays, with_disk);
  }
}

// Means and maxima that a training changes, with blocks that keep, recompute and go to a disk. A loss scale lets an update
// wait for the norm.
TEST(Statistics, EveryBudgetIsExactAndHasTheSameBits) {
  for (const bool scaled : {false, true}) {
    OptimizerSettings optimizer;
    optimizer.clip = 0;
    optimizer.scaled = scaled;
    const auto make = [&](std::int64_t batch) {
      return following_network(batch, 32, optimizer, scaled ? DType::f16 : DType::f32, /*line=*/scaled);
    };
    EXPECT_EQ(block_count(find_units(make(1).graph)), 6);
    std::size_t with_replays = 0, with_disk = 0;
    run_irregular(make, {}, with_replays, with_disk);
  }
}

TEST(Statistics, EveryBudgetIsExactAndHasTheSameBitsBesideADisk) {
  for (const std::int64_t width : {16, 256}) {
    const auto make = [&](std::int64_t batch) { return following_network(batch, width, {}, DType::f32); };
    std::size_t with_replays = 0, with_disk = 0;
    run_irregular(make, {kGiB}, with_replays, with_disk);
    if (width > 16) EXPECT_GE(with_disk, 3u);
  }
}

// Statistics of groups, running ones, and averages of these, with blocks that keep, recompute and go to a disk.
TEST(BatchNorm, EveryBudgetIsExactAndHasTheSameBits) {
  for (const bool scaled : {false, true}) {
    OptimizerSettings optimizer;
    optimizer.clip = scaled ? 1 : 0;
    optimizer.scaled = scaled;
    optimizer.average_blend = 0.1;
    const auto make = [&](std::int64_t batch) {
      return batch_norm_network(batch, 32, optimizer, scaled ? DType::f16 : DType::f32);
    };
    EXPECT_EQ(block_count(find_units(make(1).graph)), 6);
    std::size_t with_replays = 0, with_disk = 0;
    run_irregular(make, {}, with_replays, with_disk);
    EXPECT_GE(with_replays, 4u);
  }
}

TEST(BatchNorm, EveryBudgetIsExactAndHasTheSameBitsBesideADisk) {
  std::size_t with_replays = 0, with_disk = 0;
  run_irregular([](std::int64_t batch) { return batch_norm_network(batch, 256, {}, DType::f32); }, {kGiB}, with_replays,
                with_disk);
  EXPECT_GE(with_disk, 3u);
}

TEST(LongSkips, EveryBudgetIsExactAndHasTheSameBits) {
  std::size_t with_replays = 0, with_disk = 0;
  run_irregular([](std::int64_t batch) { return skip_network(batch); }, {}, with_replays, with_disk);
  EXPECT_GE(with_replays, 16u);
}

TEST(LongSkips, EveryBudgetIsExactAndHasTheSameBitsBesideADisk) {
  std::size_t with_replays = 0, with_disk = 0;
  run_irregular([](std::int64_t batch) { return skip_network(batch, {16, 40, 512, 4}); }, {kGiB}, with_replays, with_disk);
  EXPECT_GE(with_disk, 4u);
}

TEST(UnrolledRecurrence, EveryBudgetIsExactAndHasTheSameBits) {
  std::size_t with_replays = 0, with_disk = 0;
  run_irregular(unrolled_network, {}, with_replays, with_disk);
  EXPECT_GE(with_replays, 8u);
}

// Two losses, a value that lives beyond its block, and both.
TEST(UnusualNetworks, EveryBudgetIsExactAndHasTheSameBits) {
  for (const UnusualShape& shape : {UnusualShape{true, false}, UnusualShape{false, true}, UnusualShape{true, true}}) {
    SCOPED_TRACE(2 * int{shape.auxiliary} + int{shape.gathered});
    std::size_t with_replays = 0, with_disk = 0;
    run_irregular([&](std::int64_t batch) { return unusual_network(batch, shape); }, {}, with_replays, with_disk);
  }
}

TEST(UnusualNetworks, EveryBudgetIsExactAndHasTheSameBitsBesideADisk) {
  for (const UnusualShape& shape : {UnusualShape{true, false, 256}, UnusualShape{false, true, 256}}) {
    SCOPED_TRACE(2 * int{shape.auxiliary} + int{shape.gathered});
    std::size_t with_replays = 0, with_disk = 0;
    run_irregular([&](std::int64_t batch) { return unusual_network(batch, shape); }, {kGiB}, with_replays, with_disk);
    EXPECT_GE(with_disk, 4u);
  }
}

// A loss whose logits are held, and that is a forward node of its own.
TEST(Classifier, EveryBudgetIsExactAndHasTheSameBits) {
  std::size_t with_replays = 0, with_disk = 0;
  run_irregular([](std::int64_t batch) { return classifier_network(batch, 24); }, {}, with_replays, with_disk);
  run_irregular([](std::int64_t batch) { return classifier_network(batch, 256); }, {kGiB}, with_replays, with_disk);
  EXPECT_GE(with_disk, 1u);
}

// The result of the first stack lives through the second one, and is carried across its layers.
TEST(TwoStacks, EveryBudgetIsExactAndHasTheSameBits) {
  const Graph graph = stacked_network(1, 96, 24).graph;
  std::vector<std::string> layers, others, expected;
  for (const Unit& block : find_units(graph)) (block.block ? layers : others).push_back(block.name);
  for (const char* stack : {"encoder.", "decoder."}) {
    for (int i = 0; i < 6; ++i) expected.push_back(stack + std::to_string(i));
  }
  EXPECT_EQ(layers, expected);
  for (const char* name : {"stem", "neck"}) EXPECT_EQ(std::ranges::count(others, name), 1) << name;
  std::size_t with_replays = 0, with_disk = 0;
  run_irregular([](std::int64_t batch) { return stacked_network(batch, 96, 24); }, {}, with_replays, with_disk);
  EXPECT_GE(with_replays, 8u);
}

// With the tables, matrices outside the layers rest on the disk as well, and come in whole.
TEST(TwoStacks, EveryBudgetIsExactAndHasTheSameBitsBesideADisk) {
  const Graph graph = stacked_network(1, 8, 256).graph;
  for (const bool tables : {false, true}) {
    const Graph paged = apply_paging(graph, find_units(graph),
                                     {.pages = {kLargePage, kPageSlots},
                                      .optimizer_state = kBeyond,
                                      .parameters = kBeyond,
                                      .accumulators = kBeyond,
                                      .tables = {.beyond = tables}});
    for (const char* name : {"stem.w", "neck.w", "stem.w.grad"}) EXPECT_EQ(paged.values[paged.find(name)].tier, tables) << name;
    for (const char* name : {"encoder.0.w", "decoder.3.w"}) EXPECT_EQ(paged.values[paged.find(name)].tier, 1) << name;
  }
  std::size_t with_replays = 0, with_disk = 0;
  run_irregular([](std::int64_t batch) { return stacked_network(batch, 8, 256); }, {kGiB}, with_replays, with_disk);
  EXPECT_GE(with_disk, 4u);
}

TEST(Fuzz, RandomNetworks) {
  cpu::set_thread_count(2);
  if (const char* seed = std::getenv("PLIMSOLL_FUZZ_SEED"); seed != nullptr)
    return run_seed(static_cast<unsigned>(std::atoi(seed)), {}), run_seed(static_cast<unsigned>(std::atoi(seed)), {kGiB});
  for (unsigned seed = 1; seed <= kSeeds && !::testing::Test::HasFailure(); ++seed) {
    try {
      run_seed(seed, {});
      if (seed <= kSeedsBesideADisk) run_seed(seed, {kGiB});
    } catch (const std::exception& error) {
      ADD_FAILURE() << "PLIMSOLL_FUZZ_SEED=" << seed << ": " << error.what();
    }
  }
}

}  // namespace
}  // namespace plimsoll
