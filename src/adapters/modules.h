// Patterns that select modules and parameters by name. They may come from other people's adapters, so the total work of a list's
// matches is bounded.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "adapters/settings.h"

namespace plimsoll {

// The remaining matcher steps of all matches that share this object.
struct MatchWork {
  std::int64_t left = std::int64_t{1} << 30;
};

// A regular expression in Perl's syntax. E-ADAPTER-PATTERN, with the place `where`, if it is invalid.
class NamePattern {
 public:
  NamePattern(std::string expression, std::string where);
  ~NamePattern();
  NamePattern(NamePattern&&) noexcept;
  // Matches the whole text. E-CONFIG-VALUE if the match, or all matches that share `work`, take too many steps.
  bool matches(std::string_view text, MatchWork& work) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

// True if `name` is the module's whole name or its last parts.
bool is_named(std::string_view module, std::string_view name);
bool is_named(std::string_view module, std::span<const std::string> names);

}  // namespace plimsoll
