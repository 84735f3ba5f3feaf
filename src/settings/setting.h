// Settings from a file or the command line: a name, a value and their place, not yet interpreted. The readers below convert the
// value for a key, or report it with the expectation.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"

namespace plimsoll {

// The effect of a key on a run that is resumed.
enum class OnResume : std::uint8_t {
  never,    // fixed: the checkpoint holds its value
  forced,   // affects samples, noise or arithmetic of the run: changes by force alone
  results,  // affects later numbers: changes if given anew; an edited file needs force
  place,    // a path whose contents are compared, or a place for this process alone
  free,     // no effect on results
};

struct OtherValue {
  std::string what;  // "a table", "a date"
};

using SettingValue =
    std::variant<bool, std::int64_t, double, std::string, std::vector<double>, std::vector<std::string>, OtherValue>;

struct Setting {
  std::string name;            // as written, with its section: "train.micro_batch"
  std::string where;           // "run.toml:12", or the option
  std::filesystem::path base;  // of relative paths
  bool typed = false;          // from the command line, where texts need no quotes
  SettingValue value;
  std::string text;      // the value as written
  bool earlier = false;  // typed when the resumed run began; settings that are typed now override it
};

// Every value of a TOML file in the order of its lines, and every empty table. E-CONFIG-FILE, E-CONFIG-SYNTAX.
std::vector<Setting> read_settings(const std::filesystem::path& file);

// Parses "a.b=c". Without a key before an equals sign, the key is empty and the value is the whole text.
Change read_change(std::string_view assignment);

// A change as a setting; its value is TOML, else text. E-CONFIG-SET without a key.
Setting typed_setting(const Change& change, std::string where);

// Restores a setting from its stored name and text.
Setting stored_setting(std::string name, std::string text, std::string where, std::filesystem::path base, bool typed);

// E-CONFIG-TYPE: the value does not match `expected`.
Error type_error(const Setting& setting, const std::string& expected);

// E-CONFIG-RANGE for numbers beyond [low, high]. A number without a fraction is whole (1e3).
std::int64_t whole(const Setting& setting, std::int64_t low, std::int64_t high);
inline constexpr double kAboveZero = std::numeric_limits<double>::min();
inline constexpr double kBelowOne = 0.999999;  // below one in fp32 too
double number(const Setting& setting, double low, double high);
std::vector<double> numbers(const Setting& setting, std::size_t count, double low, double high);
// A list of one number or more.
std::vector<std::int64_t> wholes(const Setting& setting, std::int64_t low, std::int64_t high);
bool flag(const Setting& setting);
std::string text(const Setting& setting);
// True for "auto", and for empty text on the command line.
bool is_auto(const Setting& setting);
// Empty for empty text, else absolute.
std::filesystem::path path(const Setting& setting);
// One path or a list; empty ones are left out.
std::vector<std::filesystem::path> paths(const Setting& setting);
// A share ("50%") refers to `memory`.
Bytes size(const Setting& setting, Bytes memory);

// Values as TOML: fp64 with a point, text in quotes.
std::string toml_text(std::int64_t value);
std::string toml_text(double value);
std::string toml_text(std::string_view text);

// The index of the text in `names`; E-CONFIG-VALUE with the nearest name.
std::size_t choice(const Setting& setting, std::span<const std::string_view> names);

}  // namespace plimsoll
