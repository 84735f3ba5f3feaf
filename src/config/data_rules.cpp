#include "config/data_rules.h"

#include <fmt/core.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "data/data_formats.h"
#include "data/data_kinds.h"
#include "models/all.h"

namespace plimsoll {
namespace {

Error conflict(const GivenSettings& given, std::string_view key, std::string what, std::string expected, Remedies remedies = {}) {
  return config_error("E-CONFIG-CONFLICT", given.where(key), std::move(what), std::move(expected), std::move(remedies));
}

}  // namespace

void check_images(const Config& config, const GivenSettings& given) {
  const DataSettings& data = config.data;
  const ImageSettings& image = config.image;
  const Family& family = config.model.config.family();
  const ModelFacts facts = facts_of(config.model.config);
  const bool images = data_kind(data.format).pixels;
  if (images && facts.channels == 0) {
    throw conflict(given, "data.format",
                   fmt::format("data of format \"{}\" are images, and a {} takes none", data.format, family.kind),
                   "a model of images, or text or tokens");
  }
  if (!images && facts.channels > 0) {
    throw conflict(given, "data.format",
                   fmt::format("data of format \"{}\" are tokens, and a {} takes images", data.format, family.kind),
                   fmt::format("one of {}", joined(kImageFormats)), {Change("data.format", "idx")});
  }
  const std::array says{
      std::pair{"data.labels", !data.labels.empty()},  std::pair{"data.validation_labels", !data.validation_labels.empty()},
      std::pair{"image.mean", !image.mean.empty()},    std::pair{"image.std", !image.std.empty()},
      std::pair{"image.pad_crop", image.pad_crop > 0}, std::pair{"image.flip", image.flip}};
  for (const auto& [key, said] : says) {
    if (!said || images) continue;
    throw conflict(given, key, fmt::format("{} is given, and data of format \"{}\" are no images", key, data.format),
                   "without it, or images: " + joined(kImageFormats));
  }
  for (const auto& [key, labels] :
       {std::pair("data.labels", &data.labels), {"data.validation_labels", &data.validation_labels}}) {
    if (!images || has_label_files(data.format) || labels->empty()) continue;
    throw conflict(given, key, fmt::format("{} is given, and files of format \"{}\" hold their labels", key, data.format),
                   "without it", {Change(key)});
  }
  if (images && !data.validation_labels.empty() && data.validation.empty()) {
    throw conflict(given, "data.validation_labels", "data.validation_labels is given, and data.validation names no images",
                   "both, or neither", {Change("data.validation_labels")});
  }
}

void check_no_tokens(const Config& config, const GivenSettings& given) {
  const ModelFacts facts = facts_of(config.model.config);
  if (facts.vocab > 0) return;
  struct Said {
    bool given;
    Change without;
  };
  const std::array says{Said{config.model.context != facts.positions, {"model.context", facts.positions}},
                        Said{config.train.effective_tokens > 0, {"train.effective_tokens", 0}},
                        Said{!config.data.vocabulary.empty(), {"data.vocabulary"}},
                        Said{config.batch.packing, {"batch.packing", "false"}},
                        Said{config.batch.tokens > 0, {"batch.tokens", 0}}};
  for (const auto& [said, without] : says) {
    if (!said) continue;
    throw conflict(given, without.key,
                   fmt::format("{} is given, and a {} reads no tokens", without.key, config.model.config.family().kind),
                   "without it", {without});
  }
}

void check_samples(const Config& config, const GivenSettings& given) {
  const DataSettings& data = config.data;
  const DataKind& kind = data_kind(data.format);
  if (kind.own_lengths) return;
  const std::array says{std::pair{"batch.packing", config.batch.packing}, std::pair{"data.template", !data.chat_template.empty()},
                        std::pair{"data.loss", data.loss != TrainedTurns::assistant},
                        std::pair{"data.too_long", data.too_long != LongSamples::automatic}};
  for (const auto& [key, said] : says) {
    if (!said) continue;
    const std::string what = fmt::format("{} is given, and samples of format \"{}\" are {}", key, data.format, kind.words.are);
    if (kind.pixels) throw conflict(given, key, what, "without it");
    throw conflict(given, key, what, "JSON samples, data.format = \"chat\"", {Change("data.format", "chat")});
  }
  if (data.validation_share == 0 || kind.holds_out) return;
  throw conflict(given, "data.validation",
                 fmt::format("a share of samples is held out, and those of format \"{}\" are {}", data.format, kind.words.are),
                 "a file, or JSON samples, data.format = \"chat\"", {Change("data.format", "chat")});
}

}  // namespace plimsoll
