// Small GPT-2 configurations, a machine of round figures and plans for them, for the tests of planner, program and executor.
#pragma once

#include <cstdint>
#include <ostream>
#include <random>
#include <variant>

#include "models/all.h"
#include "models/gpt2/gpt2.h"
#include "ops/op_catalogue.h"
#include "plan/block_replays.h"
#include "plan/build_plan.h"
#include "plan/plan.h"
#include "plan/search/space.h"
#include "plan/simulation.h"
#include "prepare/requests.h"
#include "prepare/training_graph.h"

namespace plimsoll {

struct ModelShape {
  std::int64_t layers, width, heads, context, vocab;
};
inline void PrintTo(const ModelShape& s, std::ostream* out) {
  *out << s.layers << " layers, width " << s.width << ", " << s.heads << " heads, context " << s.context << ", vocab " << s.vocab;
}

inline constexpr ModelShape kShapes[] = {{3, 32, 4, 16, 101}, {1, 24, 3, 7, 257}, {2, 16, 1, 5, 2003}, {5, 48, 2, 1, 17}};

inline Config config_for(const ModelShape& shape, std::int64_t effective_batch, double dropout = 0.1) {
  Config config;
  config.seed = 7;
  Gpt2Config model;
  model.layers = shape.layers;
  model.width = shape.width;
  model.heads = shape.heads;
  model.context = config.model.context = shape.context;
  model.vocab = shape.vocab;
  model.embedding_dropout = model.attention_dropout = model.residual_dropout = dropout;
  config.model.config = ModelConfig(kGpt2, model);
  config.data.format = "u16";
  config.train.effective_batch = effective_batch;
  config.optimizer.learning_rate = 1e-2;
  config.optimizer.weight_decay = 0.1;
  config.threads = 2;
  return config;
}

inline constexpr DataFacts kTrainAndValidate{.row = {RowBytes::of_stream(2)}, .validation = true};
inline constexpr DataFacts kTrainAlone{.row = {RowBytes::of_stream(2)}};

inline Machine round_machine() {
  Machine machine;
  machine.name = "round figures";
  machine.threads = 2;
  machine.rates = {.flops_per_second = 1e11, .bytes_per_second = 2e10, .step_seconds = 1e-6};
  machine.tiers = {{TierKind::compute, "ram", kGiB * 64}, {TierKind::disk, "disk", kGiB * 64}};
  machine.links = {{0, 1, 2e9}, {1, 0, 2e9}};
  machine.reserve = {kMiB * 16, kKiB * 160, Bytes{3328}, kKiB * 64, kMiB};
  machine.hash = "round";
  return machine;
}

// A device with a host and a disk as further tiers.
inline Machine round_device() {
  Machine machine = round_machine();
  machine.tiers = {
      {TierKind::compute, "device", kGiB * 64}, {TierKind::host, "host", kGiB * 64}, {TierKind::disk, "disk", kGiB * 64}};
  machine.links = {{0, 1, 4e9}, {1, 0, 4e9}, {1, 2, 1e9}, {2, 1, 1e9}};
  machine.host_reserve = machine.reserve;
  machine.reserve = {};
  return machine;
}

// The same with a GPU for the kernels.
inline Machine round_gpu() {
  Machine machine = round_device();
  machine.backend = Backend::cuda;
  machine.reserve.per_launch = kKiB;
  return machine;
}

inline OpCatalogue round_catalogue() { return OpCatalogue(round_machine().rates, {}); }

inline GraphSource source_for(const Config& config, DataFacts facts = kTrainAndValidate) {
  return [config, facts](std::int64_t micro) { return build_training_graph(config, facts, micro).graph; };
}

// Parameters and accumulators of the blocks beyond: each alone, both, with a block that keeps its own, by matrix, with tables.
inline constexpr Residency kStreamedBlocks[] = {
    {.pages = {1024, 2}, .optimizer_state = kBeyond, .parameters = kBeyond},
    {.pages = {kPageStep, 4}, .optimizer_state = kBeyond, .accumulators = kBeyond},
    {.pages = {kPageStep, 3}, .optimizer_state = kBeyond, .parameters = kBeyond, .accumulators = kBeyond},
    {.pages = {1 << 20, 4},
     .optimizer_state = kBeyond,
     .parameters = {.beyond = true, .kept = 1},
     .accumulators = {.beyond = true, .kept = 1}},
    {.pages = {1024, 2}, .optimizer_state = kBeyond, .parameters = kBeyond, .accumulators = kBeyond, .by_matrix = true},
    {.pages = {kPageStep, 3}, .optimizer_state = kBeyond, .parameters = kBeyond, .accumulators = kBeyond, .tables = kBeyond},
    {.pages = {kPageStep, 3}, .optimizer_state = kBeyond, .parameters = {.beyond = true, .kept = 1}, .by_matrix = true}};

// The planner with the objects to which it refers.
struct Planner {
  OpCatalogue catalogue = round_catalogue();
  PlanSpace space;

  explicit Planner(const Config& config, DataFacts facts = kTrainAndValidate)
      : space(source_for(config, facts), plan_request(config, facts.ragged, facts.share.ranks), round_machine(), catalogue) {}
  std::variant<Plan, Infeasible> at(Bytes memory) { return space.best({memory, {}, {}}); }
  Plan plan(Bytes memory) { return std::get<Plan>(at(memory)); }
};

// The choice for a block in this mode; in `cheap` all nodes except matrix products and attention run again.
inline BlockChoice choice_of(const Graph& graph, const Unit& block, BlockMode mode) {
  BlockChoice choice = mode;
  for (std::size_t i = 0; mode == BlockMode::cheap && i + 1 < block.nodes.size(); ++i) {
    if (!graph.nodes[block.nodes[i]].op->costly) choice.again.push_back(i);
  }
  return choice;
}

// A choice of `cheap` that replays some of the first nodes of a block; at least one.
inline BlockChoice random_choice(std::mt19937& random) {
  constexpr std::size_t kFirstNodes = 12;
  std::vector<std::size_t> again{0};
  for (std::size_t i = 1; i < kFirstNodes; ++i) {
    if (random() % 2 == 0) again.push_back(i);
  }
  return {BlockMode::cheap, std::move(again)};
}

inline std::vector<Unit> layers_of(const Graph& graph) {
  std::vector<Unit> layers = find_units(graph);
  layers.resize(static_cast<std::size_t>(block_count(layers)));
  return layers;
}

// A plan with exactly these decisions.
inline Plan plan_with(const Config& config, std::int64_t micro_batch, const std::vector<BlockChoice>& choices, int loss_chunks,
                      DataFacts facts = kTrainAndValidate, const Residency& residency = {}, std::int64_t group = 1,
                      const Machine& machine = round_machine()) {
  const Graph graph = build_training_graph(config, facts, micro_batch).graph;
  const std::vector<Unit> layers = layers_of(graph);
  PlanDecisions decisions{.micro_batch = micro_batch,
                          .accumulation = plan_request(config, facts.ragged, facts.share.ranks).accumulation(micro_batch),
                          .group = group,
                          .loss_chunks = loss_chunks,
                          .residency = residency,
                          .replays = {}};
  std::vector<BlockChoice> all;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const BlockChoice& choice = choices.at(i % choices.size());
    all.push_back(choice.again.empty() ? choice_of(graph, layers[i], choice.mode) : choice);
  }
  decisions.replays = replays_of_blocks(graph, layers, all);
  const bool gpu = machine.backend == Backend::cuda;
  OpCatalogue catalogue(machine.rates, {}, gpu ? kCudaKernels : kCpuKernels);
  return build_plan(graph, find_units(graph), decisions, plan_request(config, facts.ragged, facts.share.ranks), machine,
                    catalogue, nullptr);
}

}  // namespace plimsoll
