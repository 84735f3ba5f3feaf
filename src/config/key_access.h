// Readers and writers of keys, made from the field of the configuration that a key stands for.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "config/config_keys.h"

// The field of a configuration: PLIMSOLL_FIELD(train.updates).
#define PLIMSOLL_FIELD(path) \
  [](auto& config) -> auto& { return config.path; }

namespace plimsoll {

template <class Enum>
struct Named {
  Enum value;
  std::string_view name;
};

inline std::string shown(bool value) { return value ? "true" : "false"; }
inline std::string shown(double value) { return toml_text(value); }
inline std::string shown(std::int64_t value) { return toml_text(value); }
inline std::string shown(int value) { return toml_text(std::int64_t{value}); }
inline std::string shown(const std::optional<std::int64_t>& value) { return value ? shown(*value) : "\"auto\""; }
inline std::string shown(const std::filesystem::path& path) { return path.empty() ? std::string() : toml_text(path.native()); }

// A whole number, or nothing for "auto".
std::optional<std::int64_t> whole_or_auto(const Setting& setting, std::int64_t low, std::int64_t high);
// The index of the text in `names`. E-CONFIG-VALUE gives the advice for values of other programs for the key, if there is any.
std::size_t choice_of_key(const Setting& setting, std::string_view key, const std::vector<std::string_view>& names);
// The writer applies only to configurations for which `applies` holds.
KeyAccess written_if(bool (*applies)(const Config&), KeyAccess access);

template <class Field, class Read, class Write>
KeyAccess key_at(Field field, Read read, Write write) {
  return {[=](Config& c, const Setting& s) { field(c) = read(s); }, [=](const Config& c) { return write(field(c)); }};
}
template <class Field, class Read>
KeyAccess key_at(Field field, Read read) {
  return key_at(field, read, [](const auto& value) { return shown(value); });
}
template <class Field>
KeyAccess number_at(Field field, double low, double high) {
  return key_at(field, [=](const Setting& s) { return number(s, low, high); });
}
template <class Field>
KeyAccess whole_at(Field field, std::int64_t low, std::int64_t high) {
  return key_at(field, [=](const Setting& s) { return whole(s, low, high); });
}
template <class Field>
KeyAccess whole_or_auto_at(Field field, std::int64_t low, std::int64_t high) {
  return key_at(field, [=](const Setting& s) { return whole_or_auto(s, low, high); });
}

// A value of an enumeration. `names` outlive the result and name every value. `key`: the name of the key, if other programs have
// values of their own for it.
template <class Field, class Names>
KeyAccess name_at(Field field, const Names& names, std::string_view key = {}) {
  return {[=, &names](Config& c, const Setting& s) {
            std::vector<std::string_view> texts;
            for (const auto& each : names) texts.push_back(each.name);
            field(c) = names[choice_of_key(s, key, texts)].value;
          },
          [=, &names](const Config& c) {
            return toml_text(std::ranges::find(names, field(c), &std::ranges::range_value_t<Names>::value)->name);
          }};
}

}  // namespace plimsoll
