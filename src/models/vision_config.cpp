#include "models/vision_config.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace plimsoll {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

std::int64_t read_classes(const ConfigReader& reader) {
  const auto labels = reader.json().find("id2label");
  if (labels != reader.json().end() && labels->is_object() && !labels->empty()) {
    if (std::ssize(*labels) > kMaxClasses) throw reader.refuse("id2label is too long", fmt::format("{} classes", kMaxClasses));
    return std::ssize(*labels);
  }
  if (reader.json().contains("num_labels")) return reader.count("num_labels", kMaxClasses);
  return 2;  // of transformers
}

void write_classes(OrderedJson& json, const char* architecture, std::int64_t classes, Head head) {
  if (head == Head::fresh || !json.contains("architectures")) json["architectures"] = {architecture};
  json.erase("num_labels");
  const auto labels = json.find("id2label");
  if (labels != json.end() && labels->is_object() && std::ssize(*labels) == classes && head == Head::keep) return;
  OrderedJson names = OrderedJson::object(), numbers = OrderedJson::object();
  for (std::int64_t i = 0; i < classes; ++i) {
    names[std::to_string(i)] = fmt::format("LABEL_{}", i);
    numbers[fmt::format("LABEL_{}", i)] = i;
  }
  json["id2label"] = std::move(names);
  json["label2id"] = std::move(numbers);
}

std::int64_t read_side(const ConfigReader& reader, const char* key, std::int64_t fallback, std::int64_t limit) {
  const auto found = reader.json().find(key);
  if (found == reader.json().end() || found->is_null()) return fallback;
  const auto side = [&](const Json& value) { return value.is_number_integer() && value >= 1 && value <= limit; };
  if (side(*found)) return found->get<std::int64_t>();
  if (found->is_array() && found->size() == 2 && side((*found)[0]) && (*found)[0] == (*found)[1]) {
    return (*found)[0].get<std::int64_t>();
  }
  throw reader.refuse(fmt::format("{} is {}", key, ConfigReader::shown(*found)),
                      fmt::format("a whole number from 1 to {}, or two equal ones", limit));
}

std::vector<std::int64_t> read_counts(const ConfigReader& reader, const char* key, std::vector<std::int64_t> fallback,
                                      std::int64_t limit) {
  constexpr std::size_t kMost = 64;
  const auto found = reader.json().find(key);
  if (found == reader.json().end()) return fallback;
  const bool fits =
      found->is_array() && !found->empty() && found->size() <= kMost &&
      std::ranges::all_of(*found, [&](const Json& each) { return each.is_number_integer() && each >= 1 && each <= limit; });
  if (!fits) {
    throw reader.refuse(fmt::format("{} is {}", key, ConfigReader::shown(*found)),
                        fmt::format("a list of whole numbers from 1 to {}", limit));
  }
  return found->get<std::vector<std::int64_t>>();
}

std::string list_text(const std::vector<std::int64_t>& values) { return "[" + fmt::format("{}", fmt::join(values, ", ")) + "]"; }

}  // namespace plimsoll
