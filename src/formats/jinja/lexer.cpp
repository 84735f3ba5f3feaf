#include "formats/jinja/lexer.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "formats/jinja/fault.h"
#include "formats/jinja/unicode.h"
#include "formats/tokenizer/character.h"
#include "formats/utf8.h"

namespace plimsoll::jinja {
namespace {

bool is_name_start(char c) { return c == '_' || ((c | 32) >= 'a' && (c | 32) <= 'z'); }
bool is_number(char c) { return c >= '0' && c <= '9'; }
bool is_name(char c) { return is_name_start(c) || is_number(c); }

// Turns all line ends into \n and removes one at the end.
std::string plain_lines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t at = 0; at < source.size(); ++at) {
    const bool pair = source[at] == '\r' && at + 1 < source.size() && source[at + 1] == '\n';
    if (!pair) out += source[at] == '\r' ? '\n' : source[at];
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  Lexer(std::string_view source, const std::string& name) : source_(plain_lines(source)), view_(source_), name_(name) {}

  std::vector<LexerToken> run() {
    while (at_ < view_.size()) root();
    add(TokenKind::end);
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(std::string why) const { throw template_error(name_, line_, std::move(why)); }
  void add(TokenKind kind, std::string text = {}) { tokens_.push_back({kind, std::move(text), {}, line_}); }
  bool sees(std::string_view text, std::size_t at) const { return view_.substr(at).starts_with(text); }

  void go_to(std::size_t at) {
    line_ += static_cast<int>(
        std::count(view_.begin() + static_cast<std::ptrdiff_t>(at_), view_.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
    if (at > at_) line_starting_ = view_[at - 1] == '\n';
    at_ = at;
  }

  // Reads text up to the next tag, and the begin of the tag.
  void root() {
    std::size_t tag = at_;
    do {
      tag = view_.find('{', tag);
      if (tag == std::string_view::npos) break;
      if (sees("{{", tag) || sees("{%", tag) || sees("{#", tag)) break;
    } while (++tag);
    if (tag == std::string_view::npos) {
      add(TokenKind::text, source_.substr(at_));
      return go_to(view_.size());
    }
    const char kind = view_[tag + 1];
    std::size_t inside = tag + 2;
    const char sign = inside < view_.size() && (view_[inside] == '-' || view_[inside] == '+') ? view_[inside] : '\0';
    if (sign != '\0') ++inside;
    const std::string_view before = stripped(view_.substr(at_, tag - at_), sign, kind == '{');
    if (!before.empty()) add(TokenKind::text, std::string(before));
    go_to(tag);
    if (kind == '#') return comment(inside);
    if (kind == '%' && raw(inside)) return;
    go_to(inside);
    add(kind == '{' ? TokenKind::write_begin : TokenKind::block_begin);
    inside_tag(kind == '{');
  }

  std::string_view stripped(std::string_view text, char sign, bool write) const {
    if (sign == '-') return text.substr(0, space_begin(text, text.size(), 0));
    if (sign == '+' || write) return text;
    const std::size_t line = text.rfind('\n') + 1;
    if ((line > 0 || line_starting_) && space_begin(text, text.size(), line) == line) return text.substr(0, line);
    return text;
  }

  // The place after a tag's end at `at`, with the white space or the line end that belongs to it. 0: no tag ends there.
  std::size_t tag_end(std::string_view close, std::size_t at, bool block) const {
    if (at < view_.size() && view_[at] == '-' && sees(close, at + 1)) return space_end(view_, at + 1 + close.size());
    if (block && at < view_.size() && view_[at] == '+' && sees(close, at + 1)) return at + 1 + close.size();
    if (!sees(close, at)) return 0;
    at += close.size();
    return block && at < view_.size() && view_[at] == '\n' ? at + 1 : at;
  }

  void comment(std::size_t from) {
    // A sign that could belong to both ends of a comment belongs to the closing one.
    for (std::size_t at = from; at < view_.size(); ++at) {
      if (const std::size_t end = tag_end("#}", at, true)) return go_to(end);
    }
    fail("the comment that begins here has no end");
  }

  bool raw(std::size_t from) {
    std::size_t at = space_end(view_, from);
    if (!sees("raw", at)) return false;
    at = space_end(view_, at + 3);
    std::size_t body = 0;
    if (sees("-%}", at)) {
      body = space_end(view_, at + 3);
    } else if (sees("%}", at)) {
      body = at + 2;
    } else {
      return false;
    }
    go_to(body);
    for (std::size_t tag = view_.find("{%", body); tag != std::string_view::npos; tag = view_.find("{%", tag + 1)) {
      std::size_t inside = tag + 2;
      const char sign = inside < view_.size() && (view_[inside] == '-' || view_[inside] == '+') ? view_[inside] : '\0';
      inside = space_end(view_, inside + (sign != '\0' ? 1 : 0));
      if (!sees("endraw", inside)) continue;
      const std::size_t end = tag_end("%}", space_end(view_, inside + 6), true);
      if (end == 0) continue;
      const std::string_view text = stripped(view_.substr(body, tag - body), sign, false);
      if (!text.empty()) add(TokenKind::text, std::string(text));
      go_to(end);
      return true;
    }
    fail("the raw block that begins here has no end");
  }

  void inside_tag(bool write) {
    std::vector<char> open;
    for (;;) {
      if (at_ >= view_.size()) fail("the tag that begins here has no end");
      if (open.empty()) {
        if (const std::size_t end = tag_end(write ? "}}" : "%}", at_, !write)) {
          add(write ? TokenKind::write_end : TokenKind::block_end);
          return go_to(end);
        }
      }
      const char c = view_[at_];
      if (const std::size_t end = space_end(view_, at_); end > at_) {
        go_to(end);
      } else if (is_number(c)) {
        number();
      } else if (is_name_start(c)) {
        std::size_t behind = at_;
        while (behind < view_.size() && is_name(view_[behind])) ++behind;
        add(TokenKind::name, source_.substr(at_, behind - at_));
        go_to(behind);
      } else if (c == '\'' || c == '"') {
        string(c);
      } else {
        symbol(open);
      }
    }
  }

  void symbol(std::vector<char>& open) {
    constexpr std::array<std::string_view, 26> kSymbols{"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                                        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    const auto* found = std::ranges::find_if(kSymbols, [&](std::string_view each) { return sees(each, at_); });
    if (found == kSymbols.end()) {
      std::size_t end = at_;
      next_character(view_, end);
      fail(fmt::format("unexpected '{}'", view_.substr(at_, end - at_)));
    }
    const char c = found->front();
    if (c == '(' || c == '[' || c == '{') open.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) fail(fmt::format("unexpected '{}'", c));
      open.pop_back();
    }
    add(TokenKind::symbol, std::string(*found));
    go_to(at_ + found->size());
  }

  // Reads digits, with single underscores between them.
  std::size_t digits_end(std::size_t at) const {
    std::size_t end = at;
    while (end < view_.size() && (is_number(view_[end]) || (view_[end] == '_' && end > at && view_[end - 1] != '_'))) ++end;
    while (end > at && view_[end - 1] == '_') --end;
    return end;
  }

  void number() {
    const std::size_t begin = at_;
    std::size_t end = digits_end(begin);
    bool real = false;
    if (const bool part = begin > 0 && view_[begin - 1] == '.'; !part) {
      if (end + 1 < view_.size() && view_[end] == '.' && is_number(view_[end + 1])) {
        end = digits_end(end + 1);
        real = true;
      }
      if (end < view_.size() && (view_[end] | 32) == 'e') {
        std::size_t power = end + 1;
        if (power < view_.size() && (view_[power] == '+' || view_[power] == '-')) ++power;
        if (power < view_.size() && is_number(view_[power])) {
          end = digits_end(power);
          real = true;
        }
      }
    }
    std::string digits = source_.substr(begin, end - begin);
    std::erase(digits, '_');
    Value value;
    if (real) {
      value = std::strtod(digits.c_str(), nullptr);
    } else {
      std::int64_t whole = 0;
      const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), whole);
      if (read.ec != std::errc()) fail(fmt::format("the number {} is too large", digits.substr(0, 40)));
      value = whole;
    }
    tokens_.push_back({TokenKind::number, std::move(digits), std::move(value), line_});
    go_to(end);
  }

  void string(char quote) {
    std::size_t end = at_ + 1;
    while (end < view_.size() && view_[end] != quote) end += view_[end] == '\\' ? 2 : 1;
    if (end >= view_.size()) fail("the string that begins here has no end");
    add(TokenKind::string, unescaped(view_.substr(at_ + 1, end - at_ - 1)));
    go_to(end + 1);
  }

  std::string unescaped(std::string_view written) const {
    std::string out;
    for (std::size_t at = 0; at < written.size();) {
      if (written[at] != '\\' || at + 1 >= written.size()) {
        out += written[at++];
        continue;
      }
      const char c = written[at + 1];
      at += 2;
      constexpr std::string_view kFrom = "\\'\"abfnrtv", kTo = "\\'\"\a\b\f\n\r\t\v";
      if (const std::size_t known = kFrom.find(c); known != std::string_view::npos) {
        out += kTo[known];
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const std::size_t size = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        append_code(out, written.substr(at, size), size, 16);
        at += size;
      } else if (c >= '0' && c <= '7') {
        std::size_t size = 1;
        while (size < 3 && at - 1 + size < written.size() && written[at - 1 + size] >= '0' && written[at - 1 + size] <= '7')
          ++size;
        append_code(out, written.substr(at - 1, size), size, 8);
        at += size - 1;
      } else if (c == 'N') {
        fail("characters by name (\\N) are not read");
      } else if (c != '\n') {
        out += '\\';
        out += c;
      }
    }
    return out;
  }

  void append_code(std::string& out, std::string_view digits, std::size_t size, int base) const {
    std::uint32_t code = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), code, base);
    if (digits.size() != size || read.ec != std::errc() || read.ptr != digits.data() + size || code > 0x10FFFF ||
        (code >= 0xD800 && code < 0xE000)) {
      fail("a character in a string is none");
    }
    append_character(out, static_cast<char32_t>(code));
  }

  std::string source_;
  std::string_view view_;
  const std::string& name_;
  std::vector<LexerToken> tokens_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
};

}  // namespace

std::vector<LexerToken> lex(std::string_view source, const std::string& name) {
  constexpr std::size_t kMostBytes = 1 << 20;
  if (source.size() > kMostBytes) throw template_error(name, 1, fmt::format("it has {} bytes", source.size()), "at most 1 MiB");
  if (const std::size_t valid = utf8_valid_prefix(source); valid != source.size()) {
    const int line = 1 + static_cast<int>(std::ranges::count(source.substr(0, valid), '\n'));
    throw template_error(name, line, fmt::format("byte {} is not UTF-8", valid));
  }
  return Lexer(source, name).run();
}

}  // namespace plimsoll::jinja
