#include "prepare/training_graph.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "adapters/adapter.h"
#include "autodiff/precision.h"
#include "base/error.h"
#include "config/config_keys.h"
#include "data/sample_file.h"
#include "data/token_source.h"
#include "formats/config_json.h"
#include "formats/tokenizer_folder.h"
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
  const std::int64_t bytes = data.bytes_per_row > 0 ? align_up(Bytes{batch * data.bytes_per_row}, kCacheLine).n
                                                    : staging_bytes(batch, tokens, data.bytes_per_token);
  const ValueType type{DType::u8, Shape{bytes}};
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
  const Graph graph = model.family().build(model, smallest_shape(model), {}).graph;
  const WeightFiles files = weights_of_model(folder);
  const std::vector<StoredNames> stored = stored_parameters(graph, model, files);
  std::map<std::string, StoredForm> forms;
  std::size_t next = 0;
  for (const ValueId id : graph.parameters()) {
    const StoredNames& names = stored[next++];
    const std::string& name = graph.values[id].name.text();
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

TrainingGraph build_training_graph(const Config& config, DataFacts data, std::int64_t micro_batch) {
  const BatchShape shape{
      .micro = micro_batch, .evaluate = data.validation ? micro_batch : 0, .tokens = config.model.context, .packed = data.packed};
  const BuildOptions options{static_cast<std::uint64_t>(config.seed), {config.train.label_smoothing, config.train.z_loss}};
  ModelGraph model = config.model.config.family().build(config.model.config, shape, options);
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
  result.graph = std::move(model.graph);
  result.training = train_on(result.graph, result.micro, optimizer_settings(config), data.most_steps(config, micro_batch));
  result.underflow = apply_precision(result.graph, config.precision.compute, config.precision.parameters);
  result.staging = add_staging(result.graph, micro_batch, config.model.context, data);
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

InferenceGraph build_evaluation_graph(const ModelConfig& model, std::int64_t tokens, std::int64_t bytes_per_token,
                                      std::int64_t batch, const AdapterSettings& adapter, const FrozenBase& base, bool packed) {
  InferenceGraph result = forward_only(model, {.evaluate = batch, .tokens = tokens, .packed = packed}, adapter, base);
  DataFacts data{.bytes_per_token = bytes_per_token};
  if (packed) data.bytes_per_row = StoredSamples::staging_bytes_per_row(tokens, packed);
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
  return ceil_div(ragged ? ragged->most_rows : config.train.effective_batch, micro_batch);
}

DataFacts DataFiles::facts() const {
  // Both files go through the same staging buffers.
  const std::int64_t width = validation ? std::max(train.bytes_per_token, validation->bytes_per_token) : train.bytes_per_token;
  return {width, validation.has_value()};
}

namespace {

SourceRequest source_request(const Config& config, const DataPaths& paths) {
  const ModelSettings& model = config.model;
  const ModelFacts facts = facts_of(model.config);
  const bool own_tokens = !model.init.empty() && !facts.bytes && (facts.vocab > 256 || !tokenizer_file_in(model.init).empty());
  SourceRequest request{paths, config.data.format, facts.vocab, config.data.vocabulary, {}};
  if (own_tokens) request.trained = model.init;
  request.keeps_vocab = !model.init.empty();
  return request;
}

// The maximum bytes of a sample, which leave half of the budget to the tokenizer and the program.
std::int64_t most_sample_bytes(const Config& config) {
  constexpr std::int64_t kShare = 32, kLeast = 1 << 20;
  if (!config.memory.budget) return kMostSampleBytes;
  return std::clamp(config.memory.budget->n / kShare, kLeast, kMostSampleBytes);
}

}  // namespace

SampleRequest sample_request(const Config& config, const DataPaths& paths, double held_out, const CacheFolders& folders) {
  return {.paths = paths,
          .tokenizer = config.data.vocabulary,
          .trained = config.model.init,
          .chat_template = config.data.chat_template,
          .turns = config.data.loss,
          .too_long = config.data.too_long,
          .row = config.model.context,
          .vocab = facts_of(config.model.config).vocab,
          .held_out = held_out,
          .most_bytes = most_sample_bytes(config),
          .cache = folders.cache,
          .elsewhere = folders.elsewhere};
}

bool has_samples(const Config& config) { return config.data.format == "chat"; }

bool samples_are_made(const Config& config, const std::filesystem::path& cache) {
  if (!has_samples(config)) return true;
  const CacheFolders folders{cache, {}};
  const auto made = [&](const DataPaths& paths, double held_out) {
    return paths.empty() || find_samples(sample_request(config, paths, held_out, folders)).has_value();
  };
  return made(config.data.train, config.data.validation_share) && made(config.data.validation, 0);
}

std::vector<AssumedData> assume_missing_data(const Config& config) {
  std::vector<AssumedData> assumed;
  for (const auto& [key, paths] : {std::pair("data.train", config.data.train), {"data.validation", config.data.validation}}) {
    const std::optional<std::filesystem::path> missing = first_missing(paths);
    if (!missing) continue;
    if (has_samples(config)) {
      assumed.push_back({key, missing->string(), "chat", 4});
      continue;
    }
    const AssumedSource source = assume_source(source_request(config, paths));
    assumed.push_back({key, missing->string(), source.format, source.bytes_per_token});
  }
  return assumed;
}

TokenFile open_data_file(const Config& config, const DataPaths& paths, const std::filesystem::path& cache,
                         const std::filesystem::path& elsewhere) {
  if (has_samples(config)) return open_samples(sample_request(config, paths, 0, {cache, elsewhere})).train;
  SourceRequest request = source_request(config, paths);
  request.cache = cache;
  request.elsewhere = elsewhere;
  return open_source(request);
}

DataFiles open_data(const Config& config, const std::filesystem::path& cache, const std::filesystem::path& elsewhere) {
  if (config.data.validation_share > 0) {
    SampleFiles samples =
        open_samples(sample_request(config, config.data.train, config.data.validation_share, {cache, elsewhere}));
    return {std::move(samples.train), std::move(samples.held_out)};
  }
  DataFiles files{open_data_file(config, config.data.train, cache, elsewhere), {}};
  if (!config.data.validation.empty()) {
    files.validation = open_data_file(config, config.data.validation, cache, elsewhere);
    require_one_kind(files.train, *files.validation);
  }
  return files;
}

}  // namespace plimsoll
