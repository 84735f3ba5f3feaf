// What other programs call our keys.
#pragma once

#include <span>
#include <string_view>

#include "train/config_keys.h"

namespace plimsoll {

// A name that other programs use for one of our keys.
struct ConfigAlias {
  std::string_view name;  // without a section, with underscores
  std::string_view key;
  SetKey set;                     // null: as the key itself
  bool off_says_nothing = false;  // a flag beside others for the same key
};

std::span<const ConfigAlias> config_aliases();

// A name of other programs that has no single meaning here, and what to write.
struct ForeignName {
  std::string_view name;
  std::string_view advice;
};

std::span<const ForeignName> foreign_names();

}  // namespace plimsoll
