// Names of other programs for keys and values, and names without a counterpart. A foreign name has the meaning of its program
// (Hugging Face Transformers if several use it), or is refused with the key that does the job.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config_keys.h"

namespace plimsoll {

// A name that other programs use for one of our keys.
struct ConfigAlias {
  std::string_view name;  // without a section, with underscores
  std::string_view key;
  SetKey set;                     // null: as the key itself
  bool off_says_nothing = false;  // false has no effect: the name is one of several flags for the key
  std::vector<ImpliedSetting> (*implied)(const Setting&) = nullptr;  // effects of its value on other keys
  std::string_view remark = {};                                      // for the note: the difference from the other program
};

std::span<const ConfigAlias> config_aliases();

// The advice for a value that other programs have for a key; "" if none has it.
std::string foreign_value_advice(std::string_view key, std::string_view value);

// The advice for a key or section of other programs without a single meaning here; "" for other names.
std::string_view foreign_name_advice(std::string_view name);

}  // namespace plimsoll
