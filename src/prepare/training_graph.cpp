#include "prepare/training_graph.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "adapters/adapter.h"
#include "autodiff/precision.h"
#include "base/error.h"
#include "config/config_keys.h"
#include "config/image_rules.h"
#include "formats/config_json.h"
#include "graph/builder.h"
#include "models/family.h"
#include "models/gguf.h"
#include "ops/matmul/matmul.h"
#include "prepare/requests.h"
#include "weights/weights.h"

namespace plimsoll {
namespace {

std::array<ValueId, 2> add_staging(Graph& graph, std::int64_t batch, std::int64_t tokens, const DataFacts& data) {
  GraphBuilder builder(graph);
  const ValueType type{DType::u8, Shape{data.row.bytes.of(batch, tokens)}};
  return {builder.add_persistent("data.staging.0", type, Role::staging),
          builder.add_persistent("data.staging.1", type, Role::staging)};
}

TrainingValues train_on(Graph& graph, Pass& pass, const OptimizerSettings& optimizer, std::int64_t accumulation) {
  std::vector<LossRoot> roots;
  for (const LossTerm& loss : pass.losses) {
    roots.push_back({loss.losses, loss.name == LossTerm().name ? LossRoot().total : fmt::format("{}.total", loss.name)});
  }
  const TrainingValues values = add_training(graph, std::move(roots), optimizer, accumulation);
  for (std::size_t i = 0; i < pass.losses.size(); ++i) pass.losses[i].total = values.loss_totals[i];
  return values;
}

Error nothing_stored(const Config& config) {
  const std::string why = config.base == BaseFormat::file
                              ? "the file stores no frozen matrix in a format (blocks, bf16) that all of its readers accept"
                              : "no linear layer is frozen whose matrix products alone read";
  return config_error("E-CONFIG-CONFLICT", "quantize.base",
                      fmt::format("it is {}, and {}", config_key("quantize.base").text(config), why),
                      "frozen linear layers, and other trained parameters", {Change("quantize.base", "none")});
}

// The weights that are stored as neither fp32 nor fp16. No kernel reads an fp16 matrix.
std::map<std::string, StoredForm> stored_forms(const ModelConfig& model, const std::filesystem::path& folder) {
  if (folder.empty()) {
    throw config_error("E-CONFIG-CONFLICT", "quantize.base", "it is file, and the model begins as random numbers",
                       "weights that are stored in files, or a format",
                       {Change("model.init", "FOLDER"), Change("quantize.base", "nf4")});
  }
  const Graph graph = model.family().build(model, smallest_shape(), {}).graph;
  const WeightFiles files = weights_of_model(folder);
  const std::vector<StoredNames> stored = stored_parameters(graph, model, files);
  std::map<std::string, StoredForm> forms;
  std::size_t next = 0;
  for (const ValueId id : graph.parameters()) {
    const StoredNames& names = stored[next++];
    const std::string& name = graph.values[id].name.text();
    if (names.found.empty()) continue;  // a new one
    if (names.blocks) {
      forms.emplace(name, names.blocks->matrix().format);
    } else if (names.front().tensor->dtype == DType::bf16) {
      forms.emplace(name, std::nullopt);
    }
  }
  return forms;
}

}  // namespace

FrozenBase base_of(BaseFormat format, const ModelConfig& model, const std::filesystem::path& folder) {
  FrozenBase base{.format = format};
  if (format == BaseFormat::file) base.file = stored_forms(model, folder);
  if (format != BaseFormat::nf4 || !std::filesystem::is_directory(folder)) return base;
  const auto stored = read_quantization(ConfigReader(folder / "config.json"));
  if (stored && !stored->int8) base.nested = stored->nested;
  return base;
}

namespace {

// A group of one sample may be too small for a layer.
ModelGraph build_or_advise(const Config& config, const BatchShape& shape, const BuildOptions& options) {
  try {
    return config.model.config.family().build(config.model.config, shape, options);
  } catch (Error& error) {
    if (error.code != "E-BATCH-NORM") throw;
    Remedies remedies = larger_groups(config);
    // New weights have no running statistics.
    if (!config.model.init.empty()) std::ranges::move(error.remedies, std::back_inserter(remedies));
    error.remedies = std::move(remedies);
    throw;
  }
}

}  // namespace

TrainingGraph build_training_graph(const Config& config, DataFacts data, std::int64_t micro_batch) {
  const BatchShape shape{.micro = micro_batch,
                         .evaluate = data.validation ? micro_batch : 0,
                         .tokens = config.model.context,
                         .generate = data.answers,
                         .packed = data.packed,
                         .image_size = data.row.image_size};
  const BuildOptions options{
      static_cast<std::uint64_t>(config.seed), {config.train.label_smoothing, config.train.z_loss}, norm_options(config)};
  ModelGraph model = build_or_advise(config, shape, options);
  if (config.adapter.active()) add_adapter(model, config.model.config, config.adapter, options.seed);
  freeze(model.graph, config.model.freeze);
  return train_graph(config, std::move(model), data, micro_batch);
}

TrainingGraph train_graph(const Config& config, ModelGraph model, DataFacts data, std::int64_t micro_batch) {
  TrainingGraph result;
  const FrozenBase base = base_of(config.base, config.model.config, config.model.init);
  if (store_base(model.graph, base) == 0 && base.format != BaseFormat::none) throw nothing_stored(config);
  result.micro = model.pass("train");
  if (const Pass* evaluate = model.find("evaluate")) result.evaluate = *evaluate;
  if (data.answers.rows > 0) result.answers = {model.pass("extend"), model.pass("decode")};
  result.graph = std::move(model.graph);
  result.training = train_on(result.graph, result.micro, optimizer_settings(config), data.most_steps(config, micro_batch));
  result.underflow = apply_precision(result.graph, config.precision.compute, config.precision.parameters);
  const std::int64_t stage = data.zero.value_or(config.parallel.zero.value_or(1));
  // In stage 2 the gradients of a round leave a rank before its end.
  if (config.train.noise_every > 0 && (data.share.ranks == 1 || stage == 1)) {
    const Denominator per = result.micro.losses.front().per;  // the gradient of a round is rescaled as a whole
    ensure(std::ranges::all_of(result.micro.losses, [&](const LossTerm& loss) { return loss.per == per; }), "noise",
           "losses with different denominators");
    result.noise = add_noise_pass(result.graph);
  }
  // No kernel for few rows reads 16 bits.
  if (config.precision.compute == DType::f32) ops::take_few_rows(result.graph);
  result.staging = add_staging(result.graph, micro_batch, config.model.context, data);
  if (data.share.ranks > 1) result.shards = shard_update(result.graph, data.share, stage);
  return result;
}

namespace {

// Weights that no adapter trains count as frozen.
InferenceGraph forward_only(const ModelConfig& model, const BatchShape& shape, const AdapterSettings& adapter,
                            const FrozenBase& base) {
  InferenceGraph result{model.family().build(model, shape, {}), {}};
  if (adapter.active()) {
    add_adapter(result.model, model, adapter, /*seed=*/0);
    store_base(result.model.graph, base);
  } else {
    freeze_base(result.model.graph, base);
  }
  ops::take_few_rows(result.model.graph);
  return result;
}

}  // namespace

InferenceGraph build_evaluation_graph(const ModelConfig& model, std::int64_t tokens, const DataFacts& data, std::int64_t batch,
                                      const AdapterSettings& adapter, const FrozenBase& base) {
  const BatchShape shape{.evaluate = batch, .tokens = tokens, .packed = data.packed, .image_size = data.row.image_size};
  InferenceGraph result = forward_only(model, shape, adapter, base);
  result.staging = add_staging(result.model.graph, batch, tokens, data);
  return result;
}

InferenceGraph build_generation_graph(const ModelConfig& model, const GenerationShape& shape, const AdapterSettings& adapter,
                                      const FrozenBase& base) {
  return forward_only(model, {.generate = shape}, adapter, base);
}

InferenceGraph build_forward_graph(const ModelConfig& model, const BatchShape& shape, const AdapterSettings& adapter,
                                   const FrozenBase& base) {
  return forward_only(model, shape, adapter, base);
}

std::int64_t DataFacts::most_steps(const Config& config, std::int64_t micro_batch) const {
  return ceil_div(ceil_div(ragged ? ragged->most_rows : config.train.effective_batch, micro_batch), share.ranks);
}

}  // namespace plimsoll
