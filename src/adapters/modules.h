// Patterns choose modules and parameters by name. They come from configurations and adapters of other people, so the work of all
// matches of a list together is bounded.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "adapters/settings.h"

namespace plimsoll {

// The steps of the matcher that are left to all matches that share it.
struct MatchWork {
  std::int64_t left = std::int64_t{1} << 30;
};

// A regular expression in Perl's syntax. E-ADAPTER-PATTERN, naming `where`, if it is none.
class NamePattern {
 public:
  NamePattern(std::string expression, std::string where);
  ~NamePattern();
  NamePattern(NamePattern&&) noexcept;
  // All of the text. E-CONFIG-VALUE: the match, or all that share `work`, take too many steps.
  bool matches(std::string_view text, MatchWork& work) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

// Whether the name is the module's, or its last parts.
bool is_named(std::string_view module, std::string_view name);
bool is_named(std::string_view module, std::span<const std::string> names);

}  // namespace plimsoll
