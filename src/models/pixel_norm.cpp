#include "models/pixel_norm.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "formats/config_json.h"
#include "formats/file.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kMostChannels = 1024;

// A list of numbers of an object; empty if it has none.
std::vector<double> numbers_of(const ConfigReader& reader, const Json& object, const char* key, double least) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return {};
  const Json list = found->is_array() ? *found : Json::array({*found});
  const bool fits = !list.empty() && list.size() <= kMostChannels && std::ranges::all_of(list, [&](const Json& each) {
    return each.is_number() && std::isfinite(each.get<double>()) && each.get<double>() >= least && each.get<double>() < 1e6;
  });
  if (!fits) throw reader.refuse(fmt::format("{} is {}", key, ConfigReader::shown(*found)), "a number for each channel");
  return list.get<std::vector<double>>();
}

PixelNorm norm_in(const ConfigReader& reader, const Json& object, const char* mean, const char* std) {
  constexpr double kLeastMean = -1e6, kLeastStd = 1e-6;
  PixelNorm norm;
  if (auto given = numbers_of(reader, object, mean, kLeastMean); !given.empty()) norm.mean = std::move(given);
  if (auto given = numbers_of(reader, object, std, kLeastStd); !given.empty()) norm.std = std::move(given);
  return norm;
}

}  // namespace

PixelNorm pixel_norm_of(const std::filesystem::path& folder) {
  if (folder.empty() || !std::filesystem::is_directory(folder)) return {};
  if (is_there(folder / kPreprocessor)) {
    const ConfigReader reader(folder / kPreprocessor);
    reader.demand("do_rescale", {true});
    const double factor = reader.number("rescale_factor", 1.0 / 255, 0, 1e3);
    if (std::abs(factor * 255 - 1) > 1e-6) throw reader.refuse(fmt::format("rescale_factor is {}", factor), "1 / 255");
    if (reader.json().value("do_normalize", Json(true)) == Json(false)) return {{0}, {1}};
    return norm_in(reader, reader.json(), "image_mean", "image_std");
  }
  if (!is_there(folder / "config.json")) return {};
  const ConfigReader reader(folder / "config.json");
  const Json pretrained = reader.json().value("pretrained_cfg", Json::object());
  return pretrained.is_object() ? norm_in(reader, pretrained, "mean", "std") : PixelNorm();
}

void write_preprocessor(const PixelNorm& norm, std::int64_t size, const std::filesystem::path& folder) {
  OrderedJson json = OrderedJson::object();
  if (is_there(folder / kPreprocessor)) {
    const ConfigReader present(folder / kPreprocessor);
    for (const auto& [key, value] : present.json().items()) json[key] = value;
  } else {
    json = {{"do_resize", size > 0}, {"image_processor_type", "ViTImageProcessor"}};
    if (size > 0) json["size"] = {{"height", size}, {"width", size}};
  }
  json.update({{"do_rescale", true},
               {"rescale_factor", 1.0 / 255},
               {"do_normalize", true},
               {"image_mean", norm.mean},
               {"image_std", norm.std}});
  write_json(folder / kPreprocessor, json);
}

}  // namespace plimsoll
