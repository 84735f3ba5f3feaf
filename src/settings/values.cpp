#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <system_error>
#include <utility>

#include "base/text.h"
#include "base/visit.h"
#include "formats/utf8.h"
#include "settings/setting.h"

namespace plimsoll {
namespace {

// One line of at most 60 bytes, cut between characters.
std::string printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  if (text.size() <= 60) return text;
  std::size_t end = 57;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

std::string describe(const Setting& setting) {
  return match(
      setting.value, [](bool value) { return std::string(value ? "true" : "false"); },
      [](std::int64_t value) { return fmt::format("the number {}", value); },
      [](double value) { return fmt::format("the number {}", value); },
      [](const std::string& value) { return fmt::format("the text \"{}\"", printable(value)); },
      [](const std::vector<double>& value) { return fmt::format("a list of {} numbers", value.size()); },
      [](const std::vector<std::string>& value) { return fmt::format("a list of {} texts", value.size()); },
      [](const OtherValue& value) { return value.what; });
}

Error range_error(const Setting& setting, const std::string& expected) {
  return config_error("E-CONFIG-RANGE", setting.where, fmt::format("{} is {}", setting.name, describe(setting)), expected);
}

std::optional<double> parse_number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The number of a setting. On the command line, ".5" and "5." count as numbers, which TOML does not allow.
std::optional<double> any_number(const Setting& setting) {
  if (const auto* value = std::get_if<std::int64_t>(&setting.value)) return static_cast<double>(*value);
  if (const auto* value = std::get_if<double>(&setting.value)) return *value;
  const auto* text = std::get_if<std::string>(&setting.value);
  return setting.typed && text != nullptr ? parse_number(*text) : std::nullopt;
}

std::string without_quotes(const Setting& setting) {
  const auto* text = std::get_if<std::string>(&setting.value);
  return text != nullptr && parse_number(*text) ? ", without quotes" : "";
}

// "50%": a share of `all`, the memory of this machine or of its container, in whole pages.
Bytes share_of_memory(const Setting& setting, const std::string& said, Bytes all) {
  const std::optional<double> percent = parse_number(said.substr(0, said.find_last_not_of(" %") + 1));
  if (percent && *percent > 0 && *percent <= 100) {
    const auto bytes = static_cast<std::int64_t>(static_cast<double>(all.n) * *percent / 100);
    return Bytes{bytes / kPage.n * kPage.n};
  }
  throw config_error("E-CONFIG-SIZE", fmt::format("{} {}", setting.where, setting.name), fmt::format("'{}' is no share", said),
                     "above 0 and up to 100%, of this machine's memory");
}

std::string between(double low, double high) {
  const std::string from = low == kAboveZero ? "above 0" : fmt::format("from {}", low);
  return high == kBelowOne ? fmt::format("a number {} to below 1", from) : fmt::format("a number {} to {}", from, high);
}

}  // namespace

Error type_error(const Setting& setting, const std::string& expected) {
  return config_error("E-CONFIG-TYPE", setting.where, fmt::format("{} is {}", setting.name, describe(setting)), expected);
}

std::int64_t whole(const Setting& setting, std::int64_t low, std::int64_t high) {
  const std::string expected = fmt::format("a whole number from {} to {}", low, high);
  std::int64_t value = 0;
  if (const auto* exact = std::get_if<std::int64_t>(&setting.value)) {
    value = *exact;
  } else {
    const std::optional<double> number = any_number(setting);
    if (!number) throw type_error(setting, expected + without_quotes(setting));
    if (!(std::abs(*number) < 0x1p53)) throw range_error(setting, expected);
    if (*number != std::floor(*number)) throw type_error(setting, expected);
    value = static_cast<std::int64_t>(*number);
  }
  if (value < low || value > high) throw range_error(setting, expected);
  return value;
}

double number(const Setting& setting, double low, double high) {
  const std::optional<double> value = any_number(setting);
  if (!value) throw type_error(setting, between(low, high) + without_quotes(setting));
  if (!(*value >= low && *value <= high)) throw range_error(setting, between(low, high));
  return *value;
}

std::vector<double> numbers(const Setting& setting, std::size_t count, double low, double high) {
  const std::string expected = fmt::format("a list of {} numbers, each {}", count, between(low, high));
  const auto* list = std::get_if<std::vector<double>>(&setting.value);
  if (list == nullptr || list->size() != count) throw type_error(setting, expected);
  for (const double value : *list) {
    if (!(value >= low && value <= high)) {
      throw config_error("E-CONFIG-RANGE", setting.where, fmt::format("{} holds {}", setting.name, value), expected);
    }
  }
  return *list;
}

std::vector<std::int64_t> wholes(const Setting& setting, std::int64_t low, std::int64_t high) {
  constexpr std::size_t kMost = 64;
  const std::string expected = fmt::format("a list of up to {} whole numbers from {} to {}", kMost, low, high);
  const auto* list = std::get_if<std::vector<double>>(&setting.value);
  if (list == nullptr || list->empty() || list->size() > kMost) throw type_error(setting, expected);
  std::vector<std::int64_t> result;
  for (const double value : *list) {
    const bool fits = value >= static_cast<double>(low) && value <= static_cast<double>(high) && value == std::floor(value);
    if (!fits) throw config_error("E-CONFIG-RANGE", setting.where, fmt::format("{} holds {}", setting.name, value), expected);
    result.push_back(static_cast<std::int64_t>(value));
  }
  return result;
}

bool flag(const Setting& setting) {
  if (const auto* value = std::get_if<bool>(&setting.value)) return *value;
  throw type_error(setting, "true or false");
}

std::string text(const Setting& setting) {
  if (const auto* value = std::get_if<std::string>(&setting.value)) return *value;
  if (setting.typed) return setting.text;
  throw type_error(setting, "text in quotes");
}

bool is_auto(const Setting& setting) {
  const auto* value = std::get_if<std::string>(&setting.value);
  return value != nullptr && (*value == "auto" || (setting.typed && value->empty()));
}

std::filesystem::path path(const Setting& setting) {
  const std::string name = text(setting);
  if (name.find('\0') != std::string::npos) throw type_error(setting, "a path; no path holds a zero byte");
  if (name.empty()) return {};
  // If the current folder is gone, the path stays relative, and opening it fails.
  std::error_code gone;
  const std::filesystem::path relative = setting.base / name, whole = std::filesystem::absolute(relative, gone);
  const std::filesystem::path& result = gone ? relative : whole;
  if (utf8_valid_prefix(result.native()) != result.native().size()) {
    throw config_error("E-CONFIG-VALUE", setting.where, fmt::format("{} is a path that is not UTF-8", setting.name),
                       "a path in UTF-8, including the configuration's folder: plans and reports name it");
  }
  return result;
}

std::vector<std::filesystem::path> paths(const Setting& setting) {
  std::vector<std::filesystem::path> all;
  const auto add = [&](const Setting& one) {
    if (std::filesystem::path name = path(one); !name.empty()) all.push_back(std::move(name));
  };
  const auto* numbers = std::get_if<std::vector<double>>(&setting.value);
  if (numbers != nullptr && numbers->empty()) return all;
  const auto* list = std::get_if<std::vector<std::string>>(&setting.value);
  if (list != nullptr && std::ranges::find(*list, std::string()) != list->end()) {
    throw config_error("E-CONFIG-VALUE", setting.where, fmt::format("{} has an empty name in its list", setting.name),
                       "names of files, patterns or folders");
  }
  if (list == nullptr) {
    add(setting);
    return all;
  }
  for (const std::string& each : *list) {
    Setting one = setting;
    one.value = each;
    add(one);
  }
  return all;
}

Bytes size(const Setting& setting, Bytes memory) {
  const std::string where = fmt::format("{} {}", setting.where, setting.name);
  if (const auto* value = std::get_if<std::int64_t>(&setting.value); value != nullptr && *value >= 0) {
    if (*value > std::int64_t{1} << 62) throw range_error(setting, "a size of at most 4 EiB");
    return Bytes{*value};
  }
  if (any_number(setting) && !std::holds_alternative<std::string>(setting.value)) {
    return parse_bytes(fmt::format("{}", *any_number(setting)), where);
  }
  if (!std::holds_alternative<std::string>(setting.value)) throw type_error(setting, "a size such as \"2GiB\"");
  const std::string& said = std::get<std::string>(setting.value);
  return said.ends_with('%') ? share_of_memory(setting, said, memory) : parse_bytes(said, where);
}

std::size_t choice(const Setting& setting, std::span<const std::string_view> names) {
  const std::string value = text(setting);
  std::vector<std::string> candidates;
  std::string list;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == value) return i;
    candidates.emplace_back(names[i]);
    list += fmt::format("{}\"{}\"", i == 0 ? "" : ", ", names[i]);
  }
  const std::string nearest = nearest_name(value, candidates);
  Remedies remedies;
  if (!nearest.empty()) remedies.push_back(Change(setting.name, nearest));
  throw config_error("E-CONFIG-VALUE", setting.where, fmt::format("{} is \"{}\"", setting.name, printable(value)),
                     (names.size() > 1 ? "one of " : "") + list, remedies);
}

std::string toml_text(std::int64_t value) { return fmt::format("{}", value); }

std::string toml_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string toml_text(double value) {
  const std::string text = fmt::format("{}", value);
  return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
}

}  // namespace plimsoll
