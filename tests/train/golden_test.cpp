// Logits and every gradient of a small GPT-2 against PyTorch (tests/golden/gpt2_small.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <vector>

#include "autodiff/training.h"
#include "device/arena.h"
#include "device/cpu/parallel.h"
#include "formats/config_json.h"
#include "formats/file.h"
#include "formats/safetensors.h"
#include "models/all.h"
#include "models/gpt2/gpt2.h"
#include "ops/op_catalogue.h"
#include "plan/build_plan.h"
#include "plan/plan.h"
#include "plan/search/space.h"
#include "program/program.h"
#include "run/cpu_device.h"
#include "run/executor.h"
#include "weights/weights.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kBatch = 4, kTokens = 32;

std::filesystem::path folder() { return std::filesystem::path(PLIMSOLL_SOURCE_DIR) / "tests" / "golden" / "gpt2_small"; }

std::vector<float> stored(const char* file, const std::string& name) {
  const SafetensorsFile tensors = SafetensorsFile::open(folder() / file);
  const StoredTensor* tensor = tensors.find(name);
  if (tensor == nullptr) return {};
  std::vector<float> values(static_cast<std::size_t>(tensor->shape.elements()));
  std::byte staging[64];
  tensors.read_f32(*tensor, 0, values, staging);
  return values;
}

std::vector<std::uint16_t> tokens() {
  const File file = File::open(folder() / "tokens.bin");
  std::vector<std::uint16_t> values(static_cast<std::size_t>(file.size() / 2));
  file.read_at(0, std::as_writable_bytes(std::span(values)));
  return values;
}

double norm(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

double distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return std::sqrt(sum);
}

Machine machine() {
  Machine result;
  result.threads = 2;
  return result;
}

// A plan with its program, arena and kernels, and the weights of the folder in it.
struct Running {
  explicit Running(Plan made)
      : plan(std::move(made)),
        program(lower(plan)),
        arena(plan.arena),
        device(arena),
        executor(plan.graph, program, device, plan.threads, plan.decisions.loss_chunks) {
    load_weights(plan.graph, read_model(folder()), folder(), executor);
  }
  Plan plan;
  Program program;
  Arena arena;
  CpuDevice device;
  Executor executor;
};

TEST(Golden, EveryGradientOfOneBatch) {
  cpu::set_thread_count(2);
  OpCatalogue catalogue({}, {});
  const Gpt2Config config = read_gpt2_config(ConfigReader(folder() / "config.json"));
  Pass batch;
  const GraphSource source = [&](std::int64_t micro) {
    Gpt2Config quiet = config;
    quiet.embedding_dropout = quiet.attention_dropout = quiet.residual_dropout = 0;
    ModelGraph model = build_gpt2(quiet, {micro, 0, kTokens}, {.seed = 1});
    batch = model.pass("train");
    add_training(model.graph, batch.losses.front().losses, {}, 0);
    return std::move(model.graph);
  };
  for (const RecomputePolicy policy : {RecomputePolicy::none, RecomputePolicy::all}) {
    PlanRequest request;
    request.effective_batch = request.micro_batch.emplace(kBatch);
    request.recompute = policy;
    PlanSpace space(source, request, machine(), catalogue);
    Running run(std::get<Plan>(space.best({})));
    const std::vector<std::uint16_t> data = tokens();
    run.executor.run(Section::micro, true, [&](Section) {
      const auto inputs = run.executor.view(batch.input("tokens")).as<std::int32_t>();
      const auto targets = run.executor.view(batch.input("targets")).as<std::int32_t>();
      std::copy_n(data.begin(), inputs.size(), inputs.begin());
      std::copy_n(data.begin() + 1, targets.size(), targets.begin());
      for (std::uint32_t& id : run.executor.view(batch.input("sample_ids")).as<std::uint32_t>()) id = 0;
      *run.executor.view(batch.losses.front().scale).as_pointer<float>() = 1.0f / (kBatch * kTokens);
    });
    double all = 0;
    for (const ValueId id : run.plan.graph.parameters()) {
      all += std::pow(norm(stored("gradients.safetensors", run.plan.graph.values[id].name)), 2);
    }
    for (const ValueId id : run.plan.graph.parameters()) {
      const std::string name = run.plan.graph.values[id].name;
      const std::vector<float> expected = stored("gradients.safetensors", name);
      const std::span<float> got = run.executor.view(run.plan.graph.find(name + ".grad")).as<float>();
      if (const ValueId rows = run.plan.graph.find(name + ".grad.rows"); rows.valid()) {
        const std::span<float> apart = run.executor.view(rows).as<float>();
        std::transform(apart.begin(), apart.end(), got.begin(), got.begin(), std::plus<>());
      }
      ASSERT_EQ(got.size(), expected.size()) << name;
      EXPECT_LE(distance(got, expected), 2e-6 * std::max(norm(expected), 1e-3 * std::sqrt(all))) << name;
    }
  }
}

TEST(Golden, LogitsAtEveryPosition) {
  cpu::set_thread_count(2);
  OpCatalogue catalogue({}, {});
  const Gpt2Config config = read_gpt2_config(ConfigReader(folder() / "config.json"));
  const BatchShape shape{.tokens = kTokens, .forward = {.samples = kBatch, .rows = kTokens}};
  const ModelGraph model = build_gpt2(config, shape, {});
  const Pass &forward = model.pass("forward"), &scores = model.pass("logits");
  PlanRequest request;
  request.saves = false;
  Running run(build_plan(model.graph, {}, PlanDecisions{}, request, machine(), catalogue, nullptr));
  const std::vector<float> expected = stored("logits.safetensors", "logits");
  const std::vector<std::uint16_t> data = tokens();
  const auto numbers = [&](const Pass& pass, const char* field) {
    return run.executor.view(pass.input(field)).as<std::int32_t>();
  };
  run.executor.run(forward.section, false, [&](Section) {
    std::copy_n(data.begin(), kBatch * kTokens, numbers(forward, "tokens").begin());
    std::ranges::fill(numbers(forward, "segments"), 0);
    std::ranges::fill(numbers(forward, "lengths"), static_cast<std::int32_t>(kTokens));
    std::ranges::fill(run.executor.view(forward.input("sample_ids")).as<std::uint32_t>(), 0U);
  });
  const auto vocab = static_cast<std::size_t>(config.vocab);
  for (std::size_t sequence = 0; sequence < kBatch; ++sequence) {
    run.executor.run(scores.section, false, [&](Section) {
      const std::span<std::int32_t> index = numbers(scores, "index");
      std::iota(index.begin(), index.end(), static_cast<std::int32_t>(sequence * kTokens));
    });
    const std::span<float> logits = run.executor.view(scores.results.front()).as<float>();
    for (std::size_t position = 0; position < kTokens; ++position) {
      const std::span row(expected.data() + (sequence * kTokens + position) * vocab, vocab);
      EXPECT_LE(distance(logits.subspan(position * vocab, vocab), row), 2e-6 * norm(row))
          << "sequence " << sequence << ", position " << position;
    }
  }
}

}  // namespace
}  // namespace plimsoll
