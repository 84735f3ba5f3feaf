// A small GPT-2 with its training graph for the kernels and its forward graph for the fp64 reference.
#pragma once

#include <cstdint>
#include <vector>

#include "autodiff/dense_run.h"
#include "autodiff/reference_run.h"
#include "autodiff/training.h"
#include "models/gpt2/gpt2.h"

namespace plimsoll::test {

inline constexpr double kUnits = 11;  // assumed number of valid units of a window

inline Gpt2Config small_config(double dropout) {
  Gpt2Config config;
  config.layers = 2, config.width = 12, config.heads = 3, config.context = 9, config.vocab = 23;
  config.embedding_dropout = config.attention_dropout = config.residual_dropout = dropout;
  return config;
}

inline Numbers random_numbers(const ValueType& type, std::uint64_t seed, Fill fill) {
  return fill_inputs({{}, {{type, fill}}}, seed)[0];
}

struct BatchValues {
  ValueId tokens, targets, sample_ids, inverse_units;
};

// The same model twice: the forward pass alone for the reference, with the backward pass for the kernels.
class Model {
 public:
  explicit Model(const Gpt2Config& config, const OptimizerSettings& optimizer = {}, std::int64_t accumulation = 0)
      : forward(config), training(config) {
    values = add_training(training.graph, training.losses, optimizer, accumulation);
    for (const ValueId id : forward.graph.parameters()) {
      const Value& value = forward.graph.values[id];
      const bool gamma = value.parameter->initializer.kind == Initializer::Kind::ones;
      parameters.push_back(random_numbers(value.type, id.index, gamma ? Fill{0.5, 1.5} : Fill{-0.5, 0.5}));
    }
  }

  std::vector<Numbers> batch(std::uint64_t seed) const {
    const Graph& graph = forward.graph;
    const auto vocab = static_cast<double>(graph.values[graph.parameters()[0]].type.shape[0]);
    return {random_numbers(graph.values[forward.micro.tokens].type, seed, {0, vocab}),
            random_numbers(graph.values[forward.micro.targets].type, seed + 1, {-1, vocab}),
            random_numbers(graph.values[forward.micro.sample_ids].type, seed + 2, {0, 50}), round_to({1 / kUnits}, DType::f32)};
  }

  template <class Run>
  static void feed(Run set, const BatchValues& to, const std::vector<Numbers>& batch) {
    set(to.tokens, batch[0]), set(to.targets, batch[1]), set(to.sample_ids, batch[2]), set(to.inverse_units, batch[3]);
  }

  // The sum of the losses in fp64, with one element of one parameter changed.
  double losses(const std::vector<Numbers>& batch, std::size_t parameter, std::size_t element, double step) const {
    ReferenceRun run(forward.graph);
    const std::vector<ValueId> ids = forward.graph.parameters();
    for (std::size_t i = 0; i < ids.size(); ++i) run[ids[i]] = parameters[i];
    run[ids[parameter]][element] += step;
    feed([&](ValueId id, const Numbers& numbers) { run[id] = numbers; }, forward.micro, batch);
    run.run(Section::micro);
    double sum = 0;
    for (const double loss : run[forward.losses]) sum += loss;
    return sum;
  }

  void load(DenseRun& run) const {
    const std::vector<ValueId> ids = training.graph.parameters();
    for (std::size_t i = 0; i < ids.size(); ++i) run.set(ids[i], parameters[i]);
  }

  ValueId accumulator(ValueId parameter) const { return training.graph.find(training.graph.values[parameter].name + ".grad"); }

  struct Built {
    explicit Built(const Gpt2Config& config) {
      ModelGraph model = build_gpt2(config, {2, 0, 7}, {.seed = 5});
      const Pass& pass = model.pass("train");
      micro = {pass.input("tokens"), pass.input("targets"), pass.input("sample_ids"), pass.losses.front().scale};
      losses = pass.losses.front().losses;
      graph = std::move(model.graph);
    }
    Graph graph;
    BatchValues micro;
    ValueId losses;
  };
  Built forward, training;
  TrainingValues values;
  std::vector<Numbers> parameters;
};

}  // namespace plimsoll::test
