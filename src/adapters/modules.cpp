#define PCRE2_CODE_UNIT_WIDTH 8
#include "adapters/modules.h"

#include <fmt/core.h>
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "base/error.h"

namespace plimsoll {
namespace {

// The number of the first pattern that matches.
std::optional<double> number_of(const std::vector<PatternNumber>& patterns, std::string_view module) {
  for (const PatternNumber& each : patterns) {
    if (NamePattern("(.*\\.)?(" + each.pattern + ")", "adapter").matches(module)) return each.number;
  }
  return {};
}

}  // namespace

struct NamePattern::Code {
  pcre2_code* code = nullptr;
  pcre2_match_data* match = nullptr;
  ~Code() {
    pcre2_match_data_free(match);
    pcre2_code_free(code);
  }
};

NamePattern::NamePattern(const std::string& expression, const std::string& where) : code_(std::make_unique<Code>()) {
  int error = 0;
  PCRE2_SIZE at = 0;
  code_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                              PCRE2_UTF | PCRE2_ANCHORED | PCRE2_ENDANCHORED, &error, &at, nullptr);
  if (code_->code == nullptr) {
    std::array<PCRE2_UCHAR, 200> text{};
    pcre2_get_error_message(error, text.data(), text.size());
    throw config_error("E-ADAPTER-PATTERN", where,
                       fmt::format("'{}' is no regular expression: {}, at character {}", expression,
                                   reinterpret_cast<const char*>(text.data()), at),
                       "a name, or an expression such as \".*\\.q_proj\"");
  }
  code_->match = pcre2_match_data_create(1, nullptr);
  ensure(code_->match != nullptr, "adapter", "no memory for a match");
}

NamePattern::~NamePattern() = default;
NamePattern::NamePattern(NamePattern&&) noexcept = default;

// An expression that backtracks without end matches nothing.
bool NamePattern::matches(std::string_view text) const {
  return pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0, code_->match, nullptr) >= 0;
}

bool is_named(std::string_view module, std::string_view name) {
  if (!module.ends_with(name) || name.empty()) return false;
  return module.size() == name.size() || module[module.size() - name.size() - 1] == '.';
}

bool is_named(std::string_view module, std::span<const std::string> names) {
  return std::ranges::any_of(names, [&](const std::string& name) { return is_named(module, name); });
}

std::int64_t AdapterSettings::rank_of(std::string_view module) const {
  const std::optional<double> own = number_of(rank_pattern, module);
  return own ? static_cast<std::int64_t>(*own) : rank;
}

double AdapterSettings::scale_of(std::string_view module) const {
  const auto r = static_cast<double>(rank_of(module));
  return number_of(alpha_pattern, module).value_or(alpha) / (rs ? std::sqrt(r) : r);
}

}  // namespace plimsoll
