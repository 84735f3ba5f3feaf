// Random networks from description to audit: every plan between floor and ceiling is judged, verified, replayed on the `check`
// device and run under the audit, and trains to the same bits. PLIMSOLL_FUZZ_SEED=N runs one seed.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include "base/error.h"
#include "ops/update/update.h"
#include "plan/layout/judge.h"
#include "run/random_graph.h"
#include "run/session.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kEffective = 4;
constexpr unsigned kSeeds = 40;

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

// Two windows and a save, by hand, under the audit; the hash of the parameters.
std::string train(const RandomNetwork& network, const Plan& plan, std::string& difference_found) {
  const Program program = lower(plan);
  verify(program, plan.graph);
  difference_found = replay(plan, program);
  if (!difference_found.empty()) return {};
  const Arena arena(plan.arena, Session::kBeyond);
  Executor executor(plan.graph, program, arena.base(), plan.threads, plan.decisions.loss_chunks);
  Audit audit(program, plan.graph, arena);
  executor.set_observer(&audit);
  audit.enter(Phase::load);
  executor.load([&] {
    for (const Operand& operand : program.persistent) std::fill_n(arena.base() + operand.offset.n, operand.bytes.n, std::byte{0});
    initialize_parameters(plan.graph, 1, executor);
  });
  std::mt19937 tokens(99);
  std::uint32_t sample = 0;
  // Of each micro-batch that goes with the others.
  const std::vector<ValueId> all_tokens = replicas_of(plan.graph, network.tokens),
                             all_targets = replicas_of(plan.graph, network.targets),
                             all_ids = replicas_of(plan.graph, network.sample_ids),
                             all_units = replicas_of(plan.graph, network.inverse_units);
  const auto feed_micro = [&] {
    for (std::size_t replica = 0; replica < all_tokens.size(); ++replica) {
      for (auto& token : executor.view(all_tokens[replica]).as<std::int32_t>())
        token = static_cast<std::int32_t>(tokens() % static_cast<unsigned>(network.vocab));
      for (auto& target : executor.view(all_targets[replica]).as<std::int32_t>())
        target = static_cast<std::int32_t>(tokens() % static_cast<unsigned>(network.vocab));
      const auto ids = executor.view(all_ids[replica]).as<std::uint32_t>();
      for (std::size_t i = 0; i < ids.size(); i += 2) ids[i] = 0, ids[i + 1] = sample++;
      *executor.view(all_units[replica]).as_pointer<float>() = 1.0f / static_cast<float>(kEffective * network.context);
    }
  };
  for (int update = 1; update <= 2; ++update) {
    const auto feed = [&](Section section) {
      if (section == Section::micro) return feed_micro();
      double* scalars = executor.view(network.training.update_scalars).as_pointer<double>();
      scalars[ops::kLearningRate] = 1e-2;
      scalars[ops::kBiasCorrection1] = 1 - std::pow(0.9, update);
      scalars[ops::kBiasCorrection2] = 1 - std::pow(0.95, update);
      scalars[ops::kFirstUpdate] = update == 1;
    };
    audit.enter(Phase::first);
    for (std::int64_t micro = 0; micro < plan.decisions.window().rounds(); ++micro) {
      if (micro == 1) audit.enter(Phase::steady);
      executor.run(Section::micro, micro == 0, feed);
    }
    executor.run(Section::update, false, feed);
  }
  audit.enter(Phase::save);
  executor.save([] {});
  difference_found = difference(plan, audit.phases());
  return parameters_hash(plan.graph, executor);
}

void run_seed(unsigned seed) {
  SCOPED_TRACE("PLIMSOLL_FUZZ_SEED=" + std::to_string(seed));
  for (const std::int64_t micro : {std::int64_t{1}, std::int64_t{2}, kEffective}) {
    const RandomNetwork network = random_network(seed, micro);
    PlanRequest request;
    request.effective_batch = kEffective;
    request.micro_batch = micro;
    request.units_per_sample = network.context;
    CpuCatalogue catalogue = round_catalogue();
    PlanSpace space([&](std::int64_t) { return random_network(seed, micro).graph; }, request, round_machine(), catalogue);
    std::set<std::string> hashes;
    for (int i = 0; i < 4; ++i) {
      const Bytes budget{space.floor().n + (space.ceiling().n - space.floor().n) * i / 3};
      const auto best = space.best({budget, {}, {}});
      const Plan& plan = std::get<Plan>(best);
      EXPECT_LE(plan.process, budget);
      EXPECT_TRUE(judged(plan));
      std::string found;
      hashes.insert(train(network, plan, found));
      EXPECT_EQ(found, "") << "micro-batch " << micro << ", budget " << i;
    }
    EXPECT_EQ(hashes.size(), 1u) << "micro-batch " << micro;
  }
}

// At twenty budgets from floor to ceiling: no byte over the plan, the same bits, never slower with more memory.
TEST(LongSkips, EveryBudgetIsExactAndHasTheSameBits) {
  constexpr int kBudgets = 20;
  cpu::set_thread_count(2);
  std::size_t with_replays = 0;
  for (const std::int64_t micro : {std::int64_t{1}, kEffective}) {
    const RandomNetwork network = skip_network(micro);
    PlanRequest request;
    request.effective_batch = kEffective;
    request.micro_batch = micro;
    request.units_per_sample = network.context;
    CpuCatalogue catalogue = round_catalogue();
    PlanSpace space([&](std::int64_t) { return skip_network(micro).graph; }, request, round_machine(), catalogue);
    std::set<std::string> hashes, plans;
    double before = 1e30;
    for (int i = 0; i < kBudgets; ++i) {
      const Bytes budget{space.floor().n + (space.ceiling().n - space.floor().n) * i / (kBudgets - 1)};
      const auto best = space.best({budget, {}, {}});
      const Plan& plan = std::get<Plan>(best);
      EXPECT_LE(plan.process, budget);
      EXPECT_LE(plan.update_seconds, before);
      before = plan.update_seconds;
      if (!plans.insert(plan.plan_hash).second) continue;
      with_replays += !plan.decisions.replays.empty();
      EXPECT_TRUE(judged(plan));
      std::string found;
      hashes.insert(train(network, plan, found));
      EXPECT_EQ(found, "") << "micro-batch " << micro << ", budget " << i;
    }
    EXPECT_EQ(hashes.size(), 1u) << "micro-batch " << micro;
  }
  EXPECT_GE(with_replays, 16u);
}

TEST(Fuzz, RandomNetworks) {
  cpu::set_thread_count(2);
  if (const char* seed = std::getenv("PLIMSOLL_FUZZ_SEED"); seed != nullptr)
    return run_seed(static_cast<unsigned>(std::atoi(seed)));
  for (unsigned seed = 1; seed <= kSeeds && !::testing::Test::HasFailure(); ++seed) {
    try {
      run_seed(seed);
    } catch (const std::exception& error) {
      ADD_FAILURE() << "PLIMSOLL_FUZZ_SEED=" << seed << ": " << error.what();
    }
  }
}

}  // namespace
}  // namespace plimsoll
