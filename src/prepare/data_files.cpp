#include "prepare/data_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/child.h"
#include "data/conversation.h"
#include "formats/tokenizer_folder.h"
#include "models/family.h"
#include "models/pixel_norm.h"

namespace plimsoll {
namespace {

// The maximum bytes of a sample, which leave half of the budget to the tokenizer and the program.
std::int64_t most_sample_bytes(const Config& config) {
  constexpr std::int64_t kShare = 32, kLeast = 1 << 20;
  if (!config.memory.budget) return kMostSampleBytes;
  return std::clamp(config.memory.budget->n / kShare, kLeast, kMostSampleBytes);
}

ImageRequest image_request(const Config& config, const ModelFacts& facts) {
  const PixelNorm norm = pixels_of(config).value_or(PixelNorm());
  return {.labels = config.data.labels,
          .validation_labels = config.data.validation_labels,
          .size = facts.image_size,
          .channels = facts.channels,
          .classes = config.model.open_classes ? 0 : facts.classes,
          .keeps_classes = !config.model.init.empty() && !facts.new_head,
          .mean = norm.mean,
          .std = norm.std,
          .pad_crop = config.image.pad_crop,
          .flip = config.image.flip};
}

template <class Open>
std::unique_ptr<DataSet> open_in_child(const Open& open) {
  return data_set_at(nlohmann::json::parse(run_in_child([&] { return open()->place().dump(); })));
}

}  // namespace

std::optional<PixelNorm> pixels_of(const Config& config) {
  if (facts_of(config.model.config).channels == 0) return {};
  PixelNorm norm = pixel_norm_of(config.model.init);
  if (!config.image.mean.empty()) norm.mean = config.image.mean;
  if (!config.image.std.empty()) norm.std = config.image.std;
  return norm;
}

const DataKind& data_kind(const Config& config) { return data_kind(config.data.format); }

DataRequest data_request(const Config& config, const std::filesystem::path& cache, const std::filesystem::path& elsewhere) {
  const ModelSettings& model = config.model;
  const ModelFacts facts = facts_of(model.config);
  const bool own_tokens = !model.init.empty() && !facts.bytes && (facts.vocab > 256 || !tokenizer_file_in(model.init).empty());
  return {.format = config.data.format,
          .train = config.data.train,
          .validation = config.data.validation,
          .held_out = config.data.validation_share,
          .row = model.context,
          .packs = config.batch.packing,
          .tokens = {.vocab = facts.vocab,
                     .vocabulary = config.data.vocabulary,
                     .init = model.init,
                     .own_tokens = own_tokens,
                     .chat_template = config.data.chat_template,
                     .turns = config.data.loss,
                     .too_long = config.data.too_long,
                     .most_sample_bytes = most_sample_bytes(config)},
          .images = image_request(config, facts),
          .cache = cache,
          .elsewhere = elsewhere};
}

Reading reading_of(const Config& config, bool augments) {
  return {.row = config.model.context,
          .packs = config.batch.packing,
          .augments = augments,
          .seed = static_cast<std::uint64_t>(config.seed)};
}

std::vector<AssumedData> assume_missing_data(const Config& config) { return data_kind(config).assume(data_request(config)); }

std::vector<AssumedData> unprepared_data(const Config& config, const std::filesystem::path& cache) {
  const DataKind& kind = data_kind(config);
  return kind.unprepared == nullptr ? std::vector<AssumedData>() : kind.unprepared(data_request(config, cache));
}

DataFiles open_data(const Config& config, const std::filesystem::path& cache, const std::filesystem::path& elsewhere) {
  return data_kind(config).open(data_request(config, cache, elsewhere));
}

Config with_tokens_of(Config config, const DataFiles& data) {
  ModelConfig& model = config.model.config;
  if (data.train && config.model.init.empty()) model = with_vocabulary(model, facts_of(model).vocab, data.train->is_bytes());
  return config;
}

std::unique_ptr<DataSet> open_training_in_child(const Config& config, const std::filesystem::path& cache) {
  return open_in_child([&] {
    DataRequest request = data_request(config, cache);
    request.validation = {};
    request.images.validation_labels = {};
    return std::move(data_kind(config).open(request).train);
  });
}

std::unique_ptr<DataSet> open_validation_in_child(const Config& config, const std::filesystem::path& cache) {
  return open_in_child([&] {
    DataRequest request = data_request(config, cache);
    if (request.held_out > 0) return std::move(data_kind(config).open(request).validation);
    if (!request.validation.empty()) {
      request.train = std::exchange(request.validation, {});
      request.images.labels = std::exchange(request.images.validation_labels, {});
    }
    return std::move(data_kind(config).open(request).train);
  });
}

}  // namespace plimsoll
