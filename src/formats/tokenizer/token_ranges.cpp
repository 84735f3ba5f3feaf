#include "formats/tokenizer/token_ranges.h"

#include <utf8proc.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "formats/tokenizer/character.h"
#include "formats/tokenizer/sentencepiece.h"
#include "formats/tokenizer/tokenizer_error.h"
#include "formats/utf8.h"

namespace plimsoll {
namespace {

// True if a normal form may join the character with the one before it.
bool joins(char32_t c) {
  if (c >= 0x1160 && c < 0x1200) return true;  // vowels and finals of Hangul
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME: return true;
    default: return false;
  }
}

// The character at `at`.
ByteRange character_at(std::string_view text, std::size_t at) {
  std::size_t end = at;
  if (at < text.size()) next_character(text, end);
  return {at, end};
}

// Pairs the characters of a normalised part with those of the raw part, one for one from the end; the first comes from the first.
// If there are more than raw characters, the surplus comes from the last one.
void pair_characters(std::string_view raw, std::size_t raw_begin, std::string_view made, std::vector<ByteRange>& out) {
  const std::size_t from = count_characters(raw), count = count_characters(made);
  ByteRange source = character_at(raw, 0);
  for (std::size_t at = 0, index = 0; at < made.size(); ++index) {
    const ByteRange character = character_at(made, at);
    if (index > 0 && (count <= from || index < from)) {
      source = character_at(raw, source.end);
      for (std::size_t skipped = index == 1 && count < from ? from - count : 0; skipped > 0; --skipped) {
        source = character_at(raw, source.end);
      }
    }
    out.insert(out.end(), character.end - character.begin, {raw_begin + source.begin, raw_begin + source.end});
    at = character.end;
  }
}

}  // namespace

std::vector<ByteRange> origins(const Normalizer& normalizer, std::string_view raw, const Fragment& normalized) {
  std::vector<ByteRange> result;
  std::string whole;
  for (std::size_t at = 0; at < raw.size();) {
    const std::size_t begin = at;
    next_character(raw, at);
    for (std::size_t next = at; next < raw.size() && joins(next_character(raw, next));) at = next;
    const std::string_view part = raw.substr(begin, at - begin);
    Fragment fragment{std::string(part), begin == 0 && normalized.at_start, begin > 0 || normalized.continues};
    normalizer.apply(fragment);
    if (fragment.text == part) {
      for (std::size_t i = begin; i < at; ++i) result.push_back({i, i + 1});
    } else {
      pair_characters(part, begin, fragment.text, result);
    }
    whole += fragment.text;
  }
  if (whole != normalized.text) result.assign(normalized.text.size(), {0, raw.size()});
  return result;
}

std::vector<ByteRange> carried_over(std::span<const ByteRange> ranges, const std::vector<ByteRange>& origins) {
  std::vector<ByteRange> result;
  for (std::size_t i = 0; i < origins.size(); ++i) {
    const auto range = std::ranges::upper_bound(ranges, origins[i].begin, {}, &ByteRange::end);
    if (range == ranges.end() || range->begin >= origins[i].end) continue;
    if (!result.empty() && result.back().end == i) {
      ++result.back().end;
    } else {
      result.push_back({i, i + 1});
    }
  }
  return result;
}

namespace {

// The byte of a token such as "<0x0A>".
std::optional<char> fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return {};
  unsigned byte = 0;
  const auto read = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  return read.ptr == token.data() + 5 ? std::optional(static_cast<char>(byte)) : std::nullopt;
}

// The end of a token's text that begins at `at` of `text`; absent if it does not. `first`: a space may have been put before the
// text.
std::optional<std::size_t> token_end(std::string_view text, std::size_t at, std::string_view token, bool byte_level, bool first) {
  std::size_t done = 0;
  for (std::size_t next = 0; next < token.size();) {
    const std::size_t begin = next;
    const char32_t c = next_character(token, next);
    const std::string_view written = token.substr(begin, next - begin);
    const int byte = byte_level ? byte_of_character(c) : -1;
    const bool space = byte_level ? byte == ' ' : written == kSpaceMark;
    if (byte >= 0 ? at < text.size() && text[at] == static_cast<char>(byte) : text.substr(at).starts_with(written)) {
      at += byte >= 0 ? 1 : written.size();
    } else if (space && !byte_level && text.substr(at).starts_with(' ')) {
      ++at;
    } else if (!(space && first && done == 0)) {
      return {};
    }
    done = next;
  }
  return at;
}

}  // namespace

std::vector<ByteRange> trace_tokens(std::string_view text, std::span<const TokenTrace> tokens, bool byte_level,
                                    const std::string& where) {
  std::vector<ByteRange> ranges;
  ranges.reserve(tokens.size());
  std::size_t at = 0;
  bool before_unknown = false;
  for (const TokenTrace& token : tokens) {
    std::optional<std::size_t> end;
    for (;;) {
      end = token_end(text, at, token.text, byte_level, at == 0);
      if (const auto byte = fallback_byte(token.text); !end && byte && at < text.size() && text[at] == *byte) end = at + 1;
      if (end || token.unknown) break;
      // Skips characters without a token; they count as part of an unknown token before them.
      if (at == text.size()) throw tokenizer_error(where, "its tokens cannot be told apart in a text");
      do {
        ++at;
      } while (at < text.size() && is_utf8_continuation(text[at]));
      if (before_unknown) ranges.back().end = at;
    }
    if (!end) {
      end = std::min(at + 1, text.size());
      while (*end < text.size() && is_utf8_continuation(text[*end])) ++*end;
    }
    ranges.push_back({at, *end});
    at = *end;
    before_unknown = token.unknown;
  }
  for (ByteRange& range : ranges) {
    while (range.begin > 0 && range.begin < text.size() && is_utf8_continuation(text[range.begin])) --range.begin;
    while (range.end < text.size() && is_utf8_continuation(text[range.end])) ++range.end;
    // A token of characters put before the text gets the first character.
    if (range.begin == range.end && range.begin == 0 && !text.empty()) {
      do {
        ++range.end;
      } while (range.end < text.size() && is_utf8_continuation(text[range.end]));
    }
  }
  return ranges;
}

}  // namespace plimsoll
