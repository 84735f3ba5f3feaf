#include "models/timm.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "models/size_keys.h"

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
  if (shape.rank() != axes) throw missing(files_, fmt::format("{} is {}", tensor, to_text(shape)), expected);
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
                        return each.is_number_integer() && each >= 1 && each <= kMaxWidth;
                      });
  if (!square || size[1] != size[2]) {
    throw config_.refuse(fmt::format("pretrained_cfg.input_size is {}", ConfigReader::shown(size)), "[channels, size, size]");
  }
  return size[1].get<std::int64_t>();
}

std::int64_t TimmModel::classes() const {
  const Json given = config_.json().value("num_classes", Json(0));
  if (!given.is_number_integer() || given < 0 || given > kMaxClasses) {
    throw config_.refuse(fmt::format("num_classes is {}", ConfigReader::shown(given)),
                         fmt::format("a whole number from 0 to {}", kMaxClasses));
  }
  return given.get<std::int64_t>();
}

Error TimmModel::refuse(std::string_view expected) const {
  return config_.refuse(fmt::format("architecture is {}, which Plimsoll does not compute", architecture_), std::string(expected));
}

}  // namespace plimsoll
