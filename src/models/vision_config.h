// Keys of [model] and of config.json that all families of images share.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/config_json.h"
#include "models/family.h"
#include "models/shared_keys.h"

namespace plimsoll {

inline constexpr std::array<std::string_view, 2> kHeads{"keep", "new"};

// The number of labels of a folder of transformers: of id2label, else num_labels, else 2.
std::int64_t read_classes(const ConfigReader& reader);
// Writes id2label, label2id (LABEL_0, ...) where their number is another one or the head is new, and takes num_labels away.
// `architecture`: the class of transformers, also written if the head is new, since the folder may be of a model without one.
void write_classes(nlohmann::ordered_json& json, const char* architecture, std::int64_t classes, Head head);
// A side of a square: a number, or a list of two equal ones.
std::int64_t read_side(const ConfigReader& reader, const char* key, std::int64_t fallback, std::int64_t limit);

// A list of whole numbers of config.json; E-FORMAT-CONFIG for anything else.
std::vector<std::int64_t> read_counts(const ConfigReader& reader, const char* key, std::vector<std::int64_t> fallback,
                                      std::int64_t limit);
// "[1, 2]"
std::string list_text(const std::vector<std::int64_t>& values);

template <class C>
ModelConfig with_new_head(const ModelConfig& config, std::int64_t classes) {
  return config.with<C>([&](C& c) { c.classes = classes, c.head = Head::fresh; });
}

// The keys classes, channels and head of a family whose configuration C has fields of these names.
template <class C>
ModelKey classes_key() {
  return {.name = "classes",
          .required = true,
          .of_new_head = true,
          .comment = "number of classes; labels are below it; of a new head by default those of the data",
          .example = "10",
          .set = set_size<&C::classes, 1, kMaxClasses>,
          .text = size_text<&C::classes>};
}
template <class C>
ModelKey channels_key() {
  return {.name = "channels",
          .comment = "numbers of a pixel, 3 or 1; grey images fill three channels",
          .example = "3",
          .set = set_size<&C::channels, 1, kMaxChannels>,
          .text = size_text<&C::channels>};
}
template <class C>
ModelKey head_key() {
  return {.name = "head",
          .of_folder = false,
          .comment = "the last layer: keep that of the folder, or new for the classes of the data",
          .example = "\"keep\"",
          .set =
              [](const ModelConfig& config, const Setting& setting) {
                return config.with<C>([&](C& c) { c.head = static_cast<Head>(choice(setting, kHeads)); });
              },
          .text = [](const ModelConfig& config) { return toml_text(kHeads[static_cast<std::size_t>(config.as<C>().head)]); }};
}

}  // namespace plimsoll
