// What other programs call our keys and their values, and what of theirs is not here. A foreign name means here what it means
// there (Hugging Face Transformers where several use it), or is refused with what does the job.
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
  SetKey set;                                                        // null: as the key itself
  bool off_says_nothing = false;                                     // a flag beside others for the same key
  std::vector<ImpliedSetting> (*implied)(const Setting&) = nullptr;  // what its value says of other keys
  std::string_view remark = {};                                      // for the note: where our key differs
};

std::span<const ConfigAlias> config_aliases();

// What to write instead of a value that other programs have for a key of ours; "" where it is none of theirs.
std::string foreign_value_advice(std::string_view key, std::string_view value);

// A name of other programs that has no single meaning here, or none at all, and what to write. It is a key or a section.
struct ForeignName {
  std::string_view name;
  std::string_view advice;
};

std::span<const ForeignName> foreign_names();

}  // namespace plimsoll
