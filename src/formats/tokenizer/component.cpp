#include "formats/tokenizer/component.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "formats/tokenizer/character.h"
#include "formats/tokenizer/tokenizer_error.h"

namespace plimsoll {

using Json = nlohmann::json;

void check_grown(std::size_t bytes, std::size_t most, const std::string& where) {
  if (bytes <= most) return;
  throw tokenizer_error(where, fmt::format("it makes {} bytes of a text, and {} are the most", bytes, most));
}

Component::Component(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
  const auto found = json.is_object() ? json.find("type") : json.end();
  if (!json.is_object() || found == json.end() || !found->is_string()) refuse("it has no type");
  type_ = found->get<std::string>();
}

void Component::refuse(const std::string& why) const {
  throw tokenizer_error(where_, type_.empty() ? why : fmt::format("{}: {}", type_, why));
}

void Component::refuse_type() const { throw tokenizer_error(where_, fmt::format("{} is not supported", Json(type_).dump())); }

const Json& Component::at(const char* key) const {
  const auto found = json_.find(key);
  if (found == json_.end()) refuse(fmt::format("{} is missing", key));
  return *found;
}

std::string Component::text(const char* key) const {
  const Json& value = at(key);
  if (!value.is_string()) refuse(fmt::format("{} is no text", key));
  return value.get<std::string>();
}

std::string Component::text(const char* key, std::string fallback) const {
  const auto found = json_.find(key);
  return found == json_.end() || found->is_null() ? std::move(fallback) : text(key);
}

bool Component::flag(const char* key) const {
  const Json& value = at(key);
  if (!value.is_boolean()) refuse(fmt::format("{} is neither true nor false", key));
  return value.get<bool>();
}

bool Component::flag(const char* key, bool fallback) const { return maybe(key).value_or(fallback); }

std::optional<bool> Component::maybe(const char* key) const {
  const auto found = json_.find(key);
  if (found == json_.end() || found->is_null()) return {};
  return flag(key);
}

std::uint64_t Component::count(const char* key) const {
  const Json& value = at(key);
  if (!value.is_number_unsigned()) refuse(fmt::format("{} is no count", key));
  return value.get<std::uint64_t>();
}

char32_t Component::character(const char* key) const {
  const std::string value = text(key);
  std::size_t end = 0;
  const char32_t character = value.empty() ? 0 : next_character(value, end);
  if (value.empty() || end != value.size()) refuse(fmt::format("{} is not one character", key));
  return character;
}

std::vector<Component> Component::list(const char* key) const {
  const Json& value = at(key);
  if (!value.is_array()) refuse(fmt::format("{} is no list", key));
  std::vector<Component> parts;
  for (const Json& each : value) parts.emplace_back(each, where_);
  return parts;
}

}  // namespace plimsoll
