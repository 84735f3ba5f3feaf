#include "settings/setting.h"

#include <fmt/core.h>
// Some broken files end in an assertion of toml++ 3.3 (such as a table header with a strange character). Without it the error is
// reported properly.
#define TOML_ASSERT(condition) static_cast<void>(0)
#include <toml++/toml.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>

#include "formats/file.h"
#include "formats/toml_nesting.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kMaxFileBytes = 1 << 20;

SettingValue list_value(const toml::array& array) {
  std::vector<double> numbers;
  std::vector<std::string> texts;
  for (const toml::node& element : array) {
    const std::optional<double> number = element.is_number() ? element.value<double>() : std::nullopt;
    if (number) numbers.push_back(*number);
    if (const auto* text = element.as_string()) texts.push_back(text->get());
  }
  if (numbers.size() == array.size()) return numbers;
  if (texts.size() == array.size()) return texts;
  return OtherValue{"a list of neither numbers nor texts alone"};
}

SettingValue value_of(const toml::node& node) {
  if (const auto* flag = node.as_boolean()) return flag->get();
  if (const auto* whole = node.as_integer()) return whole->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* array = node.as_array()) return list_value(*array);
  return OtherValue{node.is_table() ? "a table" : "a date or time"};
}

std::string as_written(const toml::node& node) {
  std::ostringstream out;
  node.visit([&](const auto& value) { out << value; });
  return out.str();
}

// Adds the settings of a table and of its inner tables; `where` names the file.
void add_settings(const toml::table& table, const std::string& prefix, const std::string& where,
                  const std::filesystem::path& base, std::vector<std::pair<toml::source_index, Setting>>& settings) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    const toml::table* inner = node.as_table();
    if (inner != nullptr && !inner->empty()) {
      add_settings(*inner, name + ".", where, base, settings);
      continue;
    }
    const toml::source_index line = key.source().begin.line;
    settings.emplace_back(line, Setting{name, fmt::format("{}:{}", where, line), base, false, value_of(node),
                                        inner != nullptr ? "" : as_written(node)});
  }
}

std::string file_text(const std::filesystem::path& file) {
  try {
    return read_text(file, kMaxFileBytes, "E-CONFIG-FILE");
  } catch (const Error& error) {
    throw config_error("E-CONFIG-FILE", file.string(), "the configuration cannot be read: " + error.message, error.expected,
                       {Remedy::of_command("init > run.toml")});
  }
}

void check_nesting(const std::string& text, const std::string& file) {
  if (const std::optional<int> line = toml_nesting_line(text)) {
    throw config_error("E-CONFIG-SYNTAX", fmt::format("{}:{}", file, *line), "tables are nested deeper than any key",
                       "lines such as: updates = 100", {Remedy::of_command("init")});
  }
}

std::optional<SettingValue> toml_value(const std::string& text) {
  if (toml_nesting_line(text)) return std::nullopt;
  try {
    const toml::table table = toml::parse("value = " + text);
    const toml::node* node = table.get("value");
    if (table.size() != 1 || node == nullptr) return std::nullopt;
    return value_of(*node);
  } catch (const toml::parse_error&) {
    return std::nullopt;
  }
}

std::string trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t"), end = text.find_last_not_of(" \t");
  return begin == std::string_view::npos ? std::string() : std::string(text.substr(begin, end - begin + 1));
}

}  // namespace

std::vector<Setting> read_settings(const std::filesystem::path& file) {
  const std::string text = file_text(file);
  try {
    check_nesting(text, file.string());
    std::error_code gone;  // the current folder may be gone
    const std::filesystem::path whole = std::filesystem::absolute(file, gone);
    std::vector<std::pair<toml::source_index, Setting>> lines;
    add_settings(toml::parse(text), "", file.string(), (gone ? file : whole).parent_path(), lines);
    std::ranges::stable_sort(lines, {}, [](const auto& line) { return line.first; });
    std::vector<Setting> settings;
    for (auto& [line, setting] : lines) settings.push_back(std::move(setting));
    return settings;
  } catch (const toml::parse_error& error) {
    const auto& begin = error.source().begin;
    throw config_error("E-CONFIG-SYNTAX", fmt::format("{}:{}:{}", file.string(), begin.line, begin.column),
                       fmt::format("this is not TOML: {}", error.description()), "lines such as: updates = 100",
                       {Remedy::of_command("init")});
  }
}

Change read_change(std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || trimmed(assignment.substr(0, equals)).empty()) return {"", std::string(assignment)};
  return {std::string(assignment.substr(0, equals)), std::string(assignment.substr(equals + 1))};
}

Setting typed_setting(const Change& change, std::string where) {
  const std::string name = trimmed(change.key);
  if (name.empty()) {
    throw config_error("E-CONFIG-SET", std::move(where), fmt::format("'{}' has no key before an equals sign", change.value),
                       "a key with its section, an equals sign and a value", {Change("train.updates", 200)});
  }
  std::error_code gone;
  return stored_setting(name, trimmed(change.value), std::move(where), std::filesystem::current_path(gone), /*typed=*/true);
}

Setting stored_setting(std::string name, std::string text, std::string where, std::filesystem::path base, bool typed) {
  std::optional<SettingValue> value = toml_value(text);
  if (!value) value = text;
  return {std::move(name), std::move(where), std::move(base), typed, *std::move(value), std::move(text)};
}

}  // namespace plimsoll
