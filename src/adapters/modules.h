// How patterns choose modules and parameters by name.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "adapters/settings.h"

namespace plimsoll {

// A regular expression in Perl's syntax. E-ADAPTER-PATTERN, naming `where`, if it is none.
class NamePattern {
 public:
  NamePattern(const std::string& expression, const std::string& where);
  ~NamePattern();
  NamePattern(NamePattern&&) noexcept;
  // All of the text.
  bool matches(std::string_view text) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

// Whether the name is the module's, or its last parts.
bool is_named(std::string_view module, std::string_view name);
bool is_named(std::string_view module, std::span<const std::string> names);

}  // namespace plimsoll
