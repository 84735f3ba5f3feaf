#include "formats/config_json.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "formats/atomic_file.h"
#include "formats/bounded_json.h"
#include "formats/file.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr JsonLimits kLimits{.bytes = 1 << 20, .values = 50'000, .depth = 16};

}  // namespace

ConfigReader::ConfigReader(const std::filesystem::path& path)
    : where_(path.string()),
      json_(std::make_shared<const Json>(
          read_json_object(path, kLimits, "E-FORMAT-CONFIG", "the config.json of a model's folder"))) {}

ConfigReader::ConfigReader(std::string where, Json json)
    : where_(std::move(where)), json_(std::make_shared<const Json>(std::move(json))) {}

Error ConfigReader::refuse(std::string why, std::string expected) const {
  return data_error("E-FORMAT-CONFIG", where_, std::move(why), std::move(expected));
}

std::int64_t ConfigReader::count(const char* key, std::int64_t limit) const {
  const auto found = json_->find(key);
  if (found == json_->end()) throw refuse(fmt::format("{} is missing", key), "the shape of the model");
  if (!found->is_number_integer() || !(*found >= 1) || !(*found <= limit)) {
    throw refuse(fmt::format("{} is {}", key, shown(*found)), fmt::format("a whole number from 1 to {}", limit));
  }
  return found->get<std::int64_t>();
}

std::int64_t ConfigReader::count(const char* key, std::int64_t fallback, std::int64_t limit) const {
  return json_->contains(key) ? count(key, limit) : fallback;
}

double ConfigReader::number(const char* key, double fallback, double low, double high) const {
  const auto found = json_->find(key);
  if (found == json_->end()) return fallback;
  const double value = found->is_number() ? found->get<double>() : high;
  if (!(value >= low && value < high)) {
    throw refuse(fmt::format("{} is {}", key, shown(*found)), fmt::format("a number from {} to below {}", low, high));
  }
  return value;
}

bool ConfigReader::flag(const char* key, bool fallback) const {
  demand(key, {true, false});
  return json_->value(key, Json(fallback)) == Json(true);
}

void ConfigReader::demand(const char* key, std::initializer_list<Json> accepted) const {
  const auto found = json_->find(key);
  if (found == json_->end() || found->is_null()) return;
  std::string expected;
  for (const Json& value : accepted) {
    if (*found == value) return;
    expected += (expected.empty() ? "" : " or ") + value.dump();
  }
  throw refuse(fmt::format("{} is {}", key, shown(*found)), expected);
}

std::optional<FolderQuantization> read_quantization(const ConfigReader& reader) {
  constexpr const char* kKey = "quantization_config";
  const auto found = reader.json().find(kKey);
  if (found == reader.json().end() || found->is_null()) return {};
  const auto says = [&](const char* key, const Json& value) {
    return found->is_object() && found->contains(key) && (*found)[key] == value;
  };
  const bool known = says("quant_method", "bitsandbytes");
  if (known && says("load_in_8bit", true)) return FolderQuantization{.int8 = true};
  if (known && says("load_in_4bit", true) && says("bnb_4bit_quant_type", "nf4")) {
    return FolderQuantization{.nested = says("bnb_4bit_use_double_quant", true)};
  }
  throw reader.refuse(fmt::format("{} is {}", kKey, ConfigReader::shown(*found)),
                      "nf4 or int8 of bitsandbytes, or no quantization");
}

std::string ConfigReader::shown(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

OrderedJson config_that_is_there(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return OrderedJson::object();
  std::string fault;
  OrderedJson json = parse_ordered_json(read_text(path, kLimits.bytes, "E-FORMAT-CONFIG"), kLimits, fault);
  return json.is_object() ? json : OrderedJson::object();
}

void write_json(const std::filesystem::path& path, const OrderedJson& json) {
  write_file_atomically(path, json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n");
}

void write_config(const std::filesystem::path& folder, const OrderedJson& config) { write_json(folder / "config.json", config); }

void write_config_dtype(const std::filesystem::path& folder, DType dtype) {
  ensure(dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16, "write_config_dtype", "weights of another type");
  const char* const word = dtype == DType::f32 ? "float32" : dtype == DType::bf16 ? "bfloat16" : "float16";
  OrderedJson json = config_that_is_there(folder);
  const bool newer = json.contains("dtype");
  if (newer) json["dtype"] = word;
  if (!newer || json.contains("torch_dtype")) json["torch_dtype"] = word;
  write_config(folder, json);
}

}  // namespace plimsoll
