#include "models/timm.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "models/shared_keys.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

Error missing(const WeightFiles& files, const std::string& what, std::string expected) {
  return data_error("E-FORMAT-WEIGHTS", files.path(), what, std::move(expected));
}

}  // namespace

std::string timm_architecture(const ConfigReader& config) {
  const Json name = config.json().value("architecture", Json());
  return name.is_string() && !config.json().contains("model_type") ? name.get<std::string>() : std::string();
}

TimmModel::TimmModel(const std::filesystem::path& folder, ConfigReader config)
    : config_(std::move(config)), files_(WeightFiles::open(folder)), architecture_(timm_architecture(config_)) {}

const Shape& TimmModel::shape(std::string_view tensor, std::size_t axes) const {
  const auto found = files_.find(tensor);
  const std::string expected = fmt::format("the tensors of timm's {}", architecture_);
  if (!found) throw missing(files_, fmt::format("there is no tensor {}", tensor), expected);
  const Shape& shape = found->tensor->shape;
  bool fits = shape.rank() == axes;
  for (std::size_t i = 0; fits && i < axes; ++i) fits = shape[i] >= 1 && shape[i] <= kMaxWidth;
  if (!fits) throw missing(files_, fmt::format("{} is {}", tensor, to_text(shape)), expected);
  return shape;
}

std::int64_t TimmModel::blocks(const std::string& prefix) const {
  std::int64_t count = 0;
  const auto has_block = [&](std::int64_t i) {
    const std::string name = fmt::format("{}.{}.", prefix, i);
    return std::ranges::any_of(files_.all(), [&](const WeightFiles::Found& each) { return each.tensor->name.starts_with(name); });
  };
  while (count < kMaxLayers && has_block(count)) ++count;
  if (count == 0) {
    throw missing(files_, fmt::format("there is no tensor {}.0.*", prefix),
                  fmt::format("the tensors of timm's {}", architecture_));
  }
  return count;
}

std::int64_t TimmModel::input_size() const {
  const Json pretrained = config_.json().value("pretrained_cfg", Json());
  const Json size = pretrained.is_object() ? pretrained.value("input_size", Json()) : Json();
  const bool square = size.is_array() && size.size() == 3 && std::ranges::all_of(size, [](const Json& each) {
                        return each.is_number_integer() && each >= 1 && each <= kMaxImage;
                      });
  if (!square || size[1] != size[2]) {
    throw config_.refuse(fmt::format("pretrained_cfg.input_size is {}", ConfigReader::shown(size)), "[channels, size, size]");
  }
  return size[1].get<std::int64_t>();
}

void TimmModel::demand_pool(const char* pool) const {
  const auto refuse_other = [&](const Json& object, const std::string& where) {
    const Json found = object.is_object() ? object.value("global_pool", Json()) : Json();
    if (found.is_null() || found == Json(pool)) return;
    throw config_.refuse(fmt::format("{}global_pool is {}", where, ConfigReader::shown(found)), fmt::format("\"{}\"", pool));
  };
  refuse_other(config_.json(), "");
  refuse_other(config_.json().value("pretrained_cfg", Json()), "pretrained_cfg.");
  const Json args = config_.json().value("model_args", Json());
  refuse_other(args, "model_args.");
  if (!args.is_object()) return;
  // Those that the tensors show, and noise of training.
  constexpr std::array<std::string_view, 10> kKnown{"num_classes",    "in_chans",     "global_pool",    "img_size",
                                                    "depth",          "drop_rate",    "drop_path_rate", "proj_drop_rate",
                                                    "attn_drop_rate", "pos_drop_rate"};
  for (const auto& [key, value] : args.items()) {
    if (std::ranges::find(kKnown, key) != kKnown.end()) continue;
    throw config_.refuse(fmt::format("model_args has {}", key), "a model without it");
  }
}

void write_timm_config(const std::filesystem::path& folder, std::int64_t classes) {
  using Ordered = nlohmann::ordered_json;
  Ordered json = config_that_is_there(folder);
  const bool other = json.value("num_classes", Ordered()) != Ordered(classes);
  json["num_classes"] = classes;
  for (const char* key : {"model_args", "pretrained_cfg"}) {
    const auto found = json.find(key);
    if (found != json.end() && found->is_object() && found->contains("num_classes")) (*found)["num_classes"] = classes;
  }
  if (other) {
    for (const char* key : {"label_names", "label_descriptions"}) json.erase(key);
  }
  write_config(folder, json);
}

std::int64_t TimmModel::classes(const std::string& head) const {
  if (has(head + ".weight")) return shape(head + ".weight", 2)[0];
  const Json given = config_.json().value("num_classes", Json(0));
  if (!given.is_number_integer() || given < 0 || given > kMaxClasses) {
    throw config_.refuse(fmt::format("num_classes is {}", ConfigReader::shown(given)),
                         fmt::format("a whole number from 0 to {}", kMaxClasses));
  }
  return std::max<std::int64_t>(1, given.get<std::int64_t>());
}

Error TimmModel::refuse(std::string_view expected) const {
  return config_.refuse(fmt::format("architecture is {}, which Plimsoll does not compute", architecture_), std::string(expected));
}

}  // namespace plimsoll
