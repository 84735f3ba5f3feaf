// Adapters on frozen weights train with the same bits under every plan, in exactly the planned bytes, in memory and with a disk.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "adapters/adapter.h"
#include "run/session.h"

namespace plimsoll {
namespace {

constexpr int kUpdates = 3;
const ModelShape kShape{3, 128, 4, 11, 301};

Config adapted(AdapterKind kind, double dropout = 0.1) {
  Config config = config_for(kShape, 4, 0.1);
  config.adapter.kind = kind;
  config.adapter.rank = 4;
  config.adapter.dropout = dropout;
  config.adapter.rank_pattern = {{"c_fc", 8}};
  config.adapter.modules_to_save = {"ln_f", "0.ln_1"};
  config.memory.disk = DiskBudget{std::filesystem::temp_directory_path(), kGiB};
  return config;
}

void audit(const Config& config, const Plan& plan, const TokenData& data) {
  Session session(config, plan, data.files, Watch::audit);
  session.run_all_phases(data.files);
  EXPECT_EQ(difference(plan, session.audit().phases()), "");
}

class AdaptersOf : public testing::TestWithParam<AdapterKind> {};
INSTANTIATE_TEST_SUITE_P(Kind, AdaptersOf, testing::Values(AdapterKind::lora, AdapterKind::dora),
                         [](const auto& each) { return std::string(each.param == AdapterKind::lora ? "lora" : "dora"); });

TEST_P(AdaptersOf, SameBitsAndExactBytesForEveryBudget) {
  const TokenData data(kShape.vocab, 400, 90);
  for (const auto& [micro, compute] : {std::pair{2, DType::f32}, std::pair{4, DType::f32}, std::pair{2, DType::bf16}}) {
    Config config = adapted(GetParam());
    config.train.micro_batch = micro;
    config.train.accumulation = 4 / micro;
    config.precision.compute = config.precision.parameters = compute;
    Planner planner(config, data.facts());
    const std::int64_t floor = planner.space.floor().n, ceiling = planner.space.ceiling().n;
    std::set<std::string> plans, parameters;
    std::set<std::vector<std::uint64_t>> losses;
    for (int i = 0; i < 6; ++i) {
      const Plan plan = planner.plan(Bytes{floor + (ceiling - floor) * i / 5});
      if (!plans.insert(plan.plan_hash).second) continue;
      const Outcome outcome = Session(config, plan, data.files).train(kUpdates);
      parameters.insert(outcome.parameters);
      losses.insert(outcome.losses);
      audit(config, plan, data);
    }
    EXPECT_GT(plans.size(), 1u);
    EXPECT_EQ(parameters.size(), 1u) << "micro-batch " << micro;
    EXPECT_EQ(losses.size(), 1u);
  }
}

TEST_P(AdaptersOf, SameBitsAndExactBytesWithADisk) {
  const TokenData data(kShape.vocab, 400, 90);
  std::size_t round = 0;
  for (const std::int64_t micro : {2, 4}) {
    const Config config = adapted(GetParam());
    const auto plan_of = [&](BlockMode mode, const Residency& residency, std::int64_t group) {
      return plan_with(config, micro, {mode}, 1, data.facts(), residency, group);
    };
    const Outcome resident = Session(config, plan_of(BlockMode::keep, {}, 1), data.files).train(kUpdates);
    for (const BlockMode mode : {BlockMode::keep, BlockMode::cheap, BlockMode::recompute}) {
      for (const std::int64_t group : {std::int64_t{1}, 4 / micro}) {
        const Residency& residency = kStreamedBlocks[round++ % std::size(kStreamedBlocks)];
        SCOPED_TRACE(fmt::format("micro {} {} group {} page {}", micro, name(mode), group, residency.pages.elements));
        const Plan plan = plan_of(mode, residency, group);
        EXPECT_GT(plan.stored[1].n, 0);
        EXPECT_EQ(Session(config, plan, data.files).train(kUpdates), resident);
        audit(config, plan, data);
      }
    }
  }
}

std::vector<double> numbers(const Session& session, const Graph& graph, const std::string& name) {
  std::vector<double> all;
  session.executor().read(graph.find(name), [&](std::span<const std::byte> part) {
    std::vector<float> some(part.size() / sizeof(float));
    std::memcpy(some.data(), part.data(), part.size());
    all.insert(all.end(), some.begin(), some.end());
  });
  return all;
}

// After each update the norms are those of the adapted matrix.
TEST(Dora, NormsFollowTheUpdates) {
  const TokenData data(kShape.vocab, 400, 0);
  const Config config = adapted(AdapterKind::dora);
  const Plan plan = plan_with(config, 2, {BlockMode::keep}, 1, data.facts());
  Session session(config, plan, data.files);
  const std::string module = "h.1.mlp.c_fc";
  const std::size_t rank = 8, inputs = 128, outputs = 512;
  session.trainer().load(nullptr);
  EXPECT_EQ(numbers(session, plan.graph, module + ".lora_norms"),
            numbers(session, plan.graph, module + ".lora_magnitude_vector"));
  for (int i = 0; i < kUpdates; ++i) {
    session.trainer().update();
    const auto w = numbers(session, plan.graph, module + ".weight"), a = numbers(session, plan.graph, module + ".lora_A.weight"),
               b = numbers(session, plan.graph, module + ".lora_B.weight"),
               norms = numbers(session, plan.graph, module + ".lora_norms");
    double change = 0;
    for (std::size_t row = 0; row < outputs; ++row) {
      double square = 0, plain = 0;
      for (std::size_t column = 0; column < inputs; ++column) {
        double changed = w[column * outputs + row];
        plain += changed * changed;
        for (std::size_t k = 0; k < rank; ++k) changed += 8.0 / rank * b[row * rank + k] * a[k * inputs + column];
        square += changed * changed;
      }
      EXPECT_NEAR(norms[row], std::sqrt(square), 1e-5 * std::sqrt(square));
      change = std::max(change, std::abs(std::sqrt(square) / std::sqrt(plain) - 1));
    }
    EXPECT_GT(change, 1e-3) << "the adapter does something";
  }
}

// A window that runs in one micro-step or several sees the same dropout.
TEST_P(AdaptersOf, NoiseDoesNotDependOnTheMicroBatch) {
  const TokenData data(kShape.vocab, 400, 0);
  const Config config = adapted(GetParam(), 0.3);
  double losses[2];
  for (const std::int64_t micro : {1, 4}) {
    const Plan plan = plan_with(config, micro, {BlockMode::keep}, 1, data.facts());
    const Outcome outcome = Session(config, plan, data.files).train(kUpdates);
    losses[micro / 4] = std::bit_cast<double>(outcome.losses.back());
  }
  EXPECT_NEAR(losses[0], losses[1], 1e-4);
}

}  // namespace
}  // namespace plimsoll
