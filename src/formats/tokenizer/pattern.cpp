#define PCRE2_CODE_UNIT_WIDTH 8
#include "formats/tokenizer/pattern.h"

#include <fmt/core.h>
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/clock.h"
#include "formats/tokenizer/character.h"
#include "formats/tokenizer/tokenizer_error.h"

namespace plimsoll {
namespace {

constexpr std::size_t kMaxPattern = 16 << 10;
constexpr std::uint32_t kMatchLimit = 10'000'000, kHeapLimitKib = 64 << 10;
// The limit on the product of two numbers in one call: the starts that it tries, and the characters after them.
constexpr std::size_t kCallWork = std::size_t{1} << 30;
constexpr double kMostSeconds = 20;

}  // namespace

struct Pattern::State {
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
    void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
    void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
    void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
  };
  std::string where;
  std::unique_ptr<pcre2_code, Free> code;
  std::unique_ptr<pcre2_match_data, Free> match;
  std::unique_ptr<pcre2_jit_stack, Free> stack;
  std::unique_ptr<pcre2_match_context, Free> context;

  // The first match that begins at `start` or after it; false if there is none.
  bool find(std::string_view text, std::size_t start, double& deadline, Match& found) const {
    const std::size_t starts = std::max<std::size_t>(kCallWork / (text.size() + 1), 16);
    for (;;) {
      const std::size_t last = starts < text.size() - start ? start + starts : text.size();
      pcre2_set_offset_limit(context.get(), last);
      int result = call(text, start, PCRE2_NO_UTF_CHECK);
      if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = call(text, start, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT);
      if (result >= 0) {
        const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(match.get());
        found = {ends[0], ends[1]};
        return true;
      }
      if (result != PCRE2_ERROR_NOMATCH) {
        throw tokenizer_error(where,
                              fmt::format("its pattern takes more work on this text than is allowed (PCRE2 answers {})", result),
                              "a pattern that needs a number of steps in proportion to the text");
      }
      if (last == text.size()) return false;
      start = last;
      next_character(text, start);
      watch(deadline);
    }
  }

  int call(std::string_view text, std::size_t start, std::uint32_t options) const {
    return pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), start, options, match.get(),
                       context.get());
  }

  void watch(double& deadline) const {
    const double now = cpu_seconds_now();
    if (deadline == 0) deadline = now + kMostSeconds;
    if (now < deadline) return;
    throw tokenizer_error(where, fmt::format("its pattern takes more than {} s on this text", kMostSeconds),
                          "a pattern that needs a number of steps in proportion to the text");
  }
};

Pattern::Pattern(std::string_view onigurumas, std::string where) {
  const auto made = std::make_shared<State>();
  State& state = *made;
  state.where = std::move(where);
  if (onigurumas.size() > kMaxPattern) {
    throw tokenizer_error(state.where, fmt::format("its pattern has {} bytes", onigurumas.size()),
                          fmt::format("at most {}", kMaxPattern));
  }
  const std::string text = translated_pattern(onigurumas, state.where);
  const std::unique_ptr<pcre2_compile_context, State::Free> compile(pcre2_compile_context_create(nullptr));
  ensure(compile != nullptr, "Pattern", "PCRE2 has no memory");
  pcre2_set_newline(compile.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(compile.get(), 100);
  int error = 0;
  PCRE2_SIZE offset = 0;
  state.code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT,
                                 &error, &offset, compile.get()));
  if (!state.code) {
    std::array<PCRE2_UCHAR, 200> message{};
    pcre2_get_error_message(error, message.data(), message.size());
    throw tokenizer_error(state.where, fmt::format("its pattern is not read: {}", reinterpret_cast<const char*>(message.data())));
  }
  state.match.reset(pcre2_match_data_create(1, nullptr));
  state.context.reset(pcre2_match_context_create(nullptr));
  ensure(state.match && state.context, "Pattern", "PCRE2 has no memory");
  pcre2_set_match_limit(state.context.get(), kMatchLimit);
  pcre2_set_heap_limit(state.context.get(), kHeapLimitKib);
  // Without generated code, matching falls back to the interpreter by itself.
  if (pcre2_jit_compile(state.code.get(), PCRE2_JIT_COMPLETE) == 0) {
    state.stack.reset(pcre2_jit_stack_create(32 << 10, 1 << 20, nullptr));
    if (state.stack) pcre2_jit_stack_assign(state.context.get(), nullptr, state.stack.get());
  }
  state_ = made;
}

void Pattern::find_all(std::string_view text, std::vector<Match>& matches) const {
  matches.clear();
  if (text.empty()) return;
  double deadline = 0;
  bool matched = false;  // a match has been found
  Match match;
  for (std::size_t from = 0; from <= text.size();) {
    if ((matches.size() & 0xFFFF) == 0xFFFF) state_->watch(deadline);
    if (!state_->find(text, from, deadline, match)) return;
    if (match.begin == match.end && matched && match.end == matches.back().end) {
      if (from >= text.size()) return;
      next_character(text, from);
      continue;
    }
    matches.push_back(match);
    matched = true;
    from = match.end;
  }
}

}  // namespace plimsoll
