#include "config/key_access.h"

#include <fmt/core.h>

#include <variant>

#include "config/config_aliases.h"

namespace plimsoll {

std::optional<std::int64_t> whole_or_auto(const Setting& setting, std::int64_t low, std::int64_t high) {
  if (is_auto(setting)) return std::nullopt;
  if (std::holds_alternative<std::string>(setting.value) && !setting.typed) {
    throw type_error(setting, fmt::format("\"auto\" or a whole number from {} to {}", low, high));
  }
  return whole(setting, low, high);
}

std::size_t choice_of_key(const Setting& setting, std::string_view key, const std::vector<std::string_view>& names) {
  try {
    return choice(setting, names);
  } catch (const Error& error) {
    const std::string advice = error.code == "E-CONFIG-VALUE" ? foreign_value_advice(key, text(setting)) : "";
    if (advice.empty()) throw;
    throw config_error(error.code, error.where, error.message, advice);
  }
}

KeyAccess written_if(bool (*applies)(const Config&), KeyAccess access) {
  return {std::move(access.set), [applies, text = std::move(access.text)](const Config& config) {
            return applies(config) ? text(config) : std::string();
          }};
}

}  // namespace plimsoll
