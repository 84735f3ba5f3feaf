#define PCRE2_CODE_UNIT_WIDTH 8
#include "adapters/modules.h"

#include <fmt/core.h>
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"

namespace plimsoll {
namespace {

// The cost of a match is the first of these step limits within which it ends.
constexpr std::array<std::uint32_t, 3> kSteps{500, 5000, 100'000};

// The library's memory for a match: 20 KiB, shared by all patterns.
struct MatchRoom {
  pcre2_match_data* match = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);

  MatchRoom() { ensure(match != nullptr && context != nullptr, "adapter", "no memory for a match"); }
  MatchRoom(const MatchRoom&) = delete;
  MatchRoom& operator=(const MatchRoom&) = delete;
  ~MatchRoom() {
    pcre2_match_context_free(context);
    pcre2_match_data_free(match);
  }
};

// A compiled list of patterns, with its known matches: graphs are built repeatedly.
class Resolved {
 public:
  explicit Resolved(const std::vector<PatternNumber>& patterns) : patterns_(patterns) {
    for (const PatternNumber& each : patterns) compiled_.emplace_back("(.*\\.)?(" + each.pattern + ")", "adapter");
  }

  bool is_of(const std::vector<PatternNumber>& patterns) const { return patterns_ == patterns; }

  // The number of the first matching pattern.
  std::optional<double> number_of(std::string_view module) {
    if (const auto known = known_.find(module); known != known_.end()) return known->second;
    std::optional<double> number;
    for (std::size_t i = 0; i < compiled_.size() && !number; ++i) {
      if (compiled_[i].matches(module, work_)) number = patterns_[i].number;
    }
    known_.emplace(module, number);
    return number;
  }

 private:
  std::vector<PatternNumber> patterns_;
  std::vector<NamePattern> compiled_;
  std::map<std::string, std::optional<double>, std::less<>> known_;
  MatchWork work_;
};

std::optional<double> number_of(const std::vector<PatternNumber>& patterns, std::string_view module) {
  if (patterns.empty()) return {};
  constexpr std::size_t kLists = 2;  // one for ranks, one for alphas
  static thread_local std::deque<Resolved> resolved;
  auto found = std::ranges::find_if(resolved, [&](const Resolved& each) { return each.is_of(patterns); });
  if (found == resolved.end()) {
    if (resolved.size() == kLists) resolved.pop_front();
    resolved.emplace_back(patterns);
    found = resolved.end() - 1;
  }
  return found->number_of(module);
}

}  // namespace

struct NamePattern::Code {
  pcre2_code* code = nullptr;
  std::string expression, where;
  ~Code() { pcre2_code_free(code); }
};

NamePattern::NamePattern(std::string expression, std::string where) : code_(std::make_unique<Code>()) {
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
  code_->expression = std::move(expression);
  code_->where = std::move(where);
}

NamePattern::~NamePattern() = default;
NamePattern::NamePattern(NamePattern&&) noexcept = default;

bool NamePattern::matches(std::string_view text, MatchWork& work) const {
  static thread_local const MatchRoom room;
  for (const std::uint32_t steps : kSteps) {
    if (work.left < steps) break;
    work.left -= steps;
    pcre2_set_match_limit(room.context, steps);
    const int result =
        pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0, room.match, room.context);
    if (result >= 0) return true;
    if (result == PCRE2_ERROR_NOMATCH) return false;
    if (result != PCRE2_ERROR_MATCHLIMIT) break;
  }
  throw config_error("E-CONFIG-VALUE", code_->where,
                     fmt::format("the expression '{}' takes too many steps on '{}'", code_->expression, text),
                     "an expression that takes a number of steps in proportion to the name, such as \".*\\.q_proj\"");
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
