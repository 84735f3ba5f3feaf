#include "formats/tokenizer/pattern.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "formats/tokenizer/character.h"
#include "formats/tokenizer/tokenizer_error.h"

namespace plimsoll {
namespace {

// The content of character classes, without the brackets.
constexpr std::string_view kSpace =
    R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kNoSpace =
    R"(\x00-\x08\x0e-\x1f\x21-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e})"
    R"(\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";
constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";
constexpr std::string_view kHex = "0-9a-fA-F";

constexpr std::array<std::string_view, 37> kCategories{
    "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe",
    "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp", "C",  "Cc", "Cf", "Co", "Cn", "Cs"};
// Long names of categories and properties.
constexpr std::string_view kLongNames =
    " letter=L uppercaseletter=Lu lowercaseletter=Ll titlecaseletter=Lt modifierletter=Lm otherletter=Lo "
    "mark=M nonspacingmark=Mn spacingmark=Mc enclosingmark=Me number=N decimalnumber=Nd letternumber=Nl "
    "othernumber=No punctuation=P connectorpunctuation=Pc dashpunctuation=Pd openpunctuation=Ps "
    "closepunctuation=Pe initialpunctuation=Pi finalpunctuation=Pf otherpunctuation=Po symbol=S mathsymbol=Sm "
    "currencysymbol=Sc modifiersymbol=Sk othersymbol=So separator=Z alphabetic=Alphabetic alpha=Alphabetic "
    "any=Any ";
using Meaning = std::pair<std::string_view, std::string_view>;
// The POSIX classes as the content of a class.
constexpr Meaning kPosix[] = {{"alpha", R"(\p{Alphabetic})"},
                              {"digit", R"(\p{Nd})"},
                              {"alnum", R"(\p{Alphabetic}\p{Nd})"},
                              {"upper", R"(\p{Uppercase})"},
                              {"lower", R"(\p{Lowercase})"},
                              {"space", kSpace},
                              {"punct", R"(\p{P}\p{S})"},
                              {"xdigit", kHex},
                              {"word", kWord}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_alphanumeric(char c) { return is_digit(c) || ((c | 32) >= 'a' && (c | 32) <= 'z'); }

class Translator {
 public:
  Translator(std::string_view pattern, const std::string& where) : in_(pattern), where_(where) {}

  std::string run() {
    while (at_ < in_.size()) step();
    return std::move(out_);
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  [[noreturn]] void refuse(std::string_view what) const {
    throw tokenizer_error(where_, fmt::format("its pattern uses {} at byte {}, which is not supported", what, at_));
  }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0'; }
  bool follows(std::string_view text) const { return in_.substr(at_).starts_with(text); }

  void step() {
    const char c = in_[at_];
    switch (c) {
      case '\\': return escape();
      case '[': return put_class();
      case '(': return open();
      case ')': return close();
      case '{':
        if (interval()) return;
        atom_ = out_.size();
        out_ += "\\{";
        ++at_;
        return;
      case '*':
      case '+':
      case '?':
        out_ += c;
        ++at_;
        return;
      case '|':
        atom_ = kNone;
        out_ += c;
        ++at_;
        return;
      default: return literal();
    }
  }

  void literal() {
    atom_ = out_.size();
    const std::size_t begin = at_;
    next_character(in_, at_);
    out_ += in_.substr(begin, at_ - begin);
  }

  void open() {
    groups_.push_back(out_.size());
    atom_ = kNone;
    for (const std::string_view plain : {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"}) {
      if (!follows(plain)) continue;
      out_ += plain;
      at_ += plain.size();
      return;
    }
    if (!follows("(?")) {
      out_ += "(";
      ++at_;
      return;
    }
    std::size_t end = at_ + 2;
    while (end < in_.size() && (in_[end] == '-' || in_[end] == 'i' || in_[end] == 'm')) ++end;
    const bool whole = at_ == 0 && end < in_.size() && in_[end] == ')';
    if (end == in_.size() || end == at_ + 2 || (in_[end] != ':' && !whole)) refuse("a group of this kind");
    for (std::size_t i = at_; i < end; ++i) out_ += in_[i] == 'm' ? 's' : in_[i];  // "." matches line ends
    out_ += in_[end];
    at_ = end + 1;
    if (whole) groups_.pop_back();
  }

  void close() {
    if (groups_.empty()) refuse("a bracket that nothing opens");
    atom_ = groups_.back();
    groups_.pop_back();
    out_ += ')';
    ++at_;
  }

  // Reads {n}, {n,}, {n,m} or {,m}; false if the brace is text.
  bool interval() {
    std::size_t end = at_ + 1;
    const auto digits = [&] {
      const std::size_t begin = end;
      while (end < in_.size() && is_digit(in_[end])) ++end;
      return std::string(in_.substr(begin, end - begin));
    };
    std::string least = digits(), most = least;
    const bool comma = end < in_.size() && in_[end] == ',';
    if (comma) {
      ++end;
      most = digits();
    }
    if (end == in_.size() || in_[end] != '}' || (least.empty() && most.empty())) return false;
    if (atom_ == kNone) refuse("a repetition of nothing");
    at_ = end + 1;
    out_ += comma ? fmt::format("{{{},{}}}", least.empty() ? "0" : least, most) : fmt::format("{{{}}}", least);
    // Oniguruma repeats such a repetition. PCRE2 would make it possessive or lazy instead.
    const bool again = peek() == '+' || (peek() == '?' && !comma);
    if (again) {
      out_.insert(atom_, "(?:");
      out_ += ')';
    }
    return true;
  }

  static std::string_view simple_escape(char c) {
    switch (c) {
      case 'n': return "\\n";
      case 'r': return "\\r";
      case 't': return "\\t";
      case 'f': return "\\f";
      case 'v': return "\\x0b";
      case 'a': return "\\a";
      case 'e': return "\\e";
      default: return {};
    }
  }

  // An escape with the same meaning in a class and outside: \n and the like; \xHH, \x{H...} and \uHHHH as \x{...}; \p{...}; \d,
  // \s, \h, \w and their opposites. Empty for any other escape. \W and \H are refused in a class.
  std::string common_escape(bool in_class) {
    const char c = peek(1);
    if (const std::string_view simple = simple_escape(c); !simple.empty()) {
      at_ += 2;
      return std::string(simple);
    }
    if (c == 'x' || c == 'u') return code_point();
    if (c == 'p' || c == 'P') return property();
    const auto set = [&](std::string_view items, bool negated) {
      at_ += 2;
      set_ = true;
      if (in_class) return std::string(items);
      return fmt::format("[{}{}]", negated ? "^" : "", items);
    };
    switch (c) {
      case 'd': return set("\\p{Nd}", false);
      case 'D': return in_class ? set("\\P{Nd}", false) : set("\\p{Nd}", true);
      case 's': return set(kSpace, false);
      case 'S': return in_class ? set(kNoSpace, false) : set(kSpace, true);
      case 'h': return set(kHex, false);
      case 'w': return set(kWord, false);
      case 'W':
      case 'H':
        if (in_class) refuse(fmt::format("\\{} in a class", c));
        return set(c == 'W' ? kWord : kHex, true);
      default: return {};
    }
  }

  std::string code_point() {
    std::size_t begin = at_ + 2, end;
    const bool braces = in_[at_ + 1] == 'x' && begin < in_.size() && in_[begin] == '{';
    if (braces) {
      end = in_.find('}', ++begin);
    } else {
      end = std::min(in_.size(), begin + (in_[at_ + 1] == 'x' ? 2 : 4));
    }
    if (end == std::string_view::npos || end == begin || end - begin > 6) refuse("a code point that is no number");
    char32_t value = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t digit =
          std::string_view("0123456789abcdef").find(static_cast<char>(in_[i] | (is_digit(in_[i]) ? 0 : 32)));
      if (digit == std::string_view::npos) refuse("a code point that is no number");
      value = value << 4 | static_cast<char32_t>(digit);
    }
    if (value > 0x10FFFF || (!braces && in_[at_ + 1] == 'x' && value >= 0x80)) refuse("a byte that is no character");
    at_ = braces ? end + 1 : end;
    return fmt::format("\\x{{{:x}}}", static_cast<std::uint32_t>(value));
  }

  std::string property() {
    const bool outer = in_[at_ + 1] == 'P';
    const std::size_t end = in_.find('}', at_);
    if (peek(2) != '{' || end == std::string_view::npos) refuse("a property without braces");
    std::string_view name = in_.substr(at_ + 3, end - at_ - 3);
    const bool inner = name.starts_with('^');
    if (inner) name.remove_prefix(1);
    std::string plain;  // the name without case, "_", "-" and " ", which do not count
    for (const char c : name) {
      if (!is_alphanumeric(c) && c != '_' && c != '-' && c != ' ') refuse("a property without a name");
      if (is_alphanumeric(c)) plain += static_cast<char>(is_digit(c) ? c : c | 32);
    }
    if (plain.empty()) refuse("a property without a name");
    at_ = end + 1;
    set_ = true;
    std::string meant = fmt::format("sc:{}", name);
    const auto same = [&](std::string_view category) {
      return std::ranges::equal(category, plain, [](char a, char b) { return (a | 32) == b; });
    };
    if (const auto found = std::ranges::find_if(kCategories, same); found != kCategories.end()) meant = *found;
    if (const std::size_t at = kLongNames.find(fmt::format(" {}=", plain)); at != std::string_view::npos) {
      const std::string_view found = kLongNames.substr(at + plain.size() + 2);
      meant = found.substr(0, found.find(' '));
    }
    return fmt::format("\\{}{{{}}}", outer != inner ? 'P' : 'p', meant);
  }

  void escape() {
    if (at_ + 1 >= in_.size()) refuse("a backslash at its end");
    const std::size_t begin = out_.size();
    const char c = peek(1);
    std::string meant = common_escape(false);
    if (meant.empty()) {
      if (c == 'b' || c == 'B') {
        const std::string word = fmt::format("[{}]", kWord);
        meant = c == 'b' ? fmt::format("(?:(?<={0})(?!{0})|(?<!{0})(?={0}))", word)
                         : fmt::format("(?:(?<={0})(?={0})|(?<!{0})(?!{0}))", word);
        at_ += 2;
      } else if (c == 'A' || c == 'z' || c == 'Z') {
        meant = {'\\', c};
        at_ += 2;
      } else {
        meant = escaped_symbol("");
      }
    }
    out_ += meant;
    atom_ = begin;
  }

  // A character after a backslash that stands for itself.
  std::string escaped_symbol(std::string_view place) {
    if (is_alphanumeric(peek(1))) refuse(fmt::format("\\{}{}", peek(1), place));
    const std::size_t from = ++at_;
    next_character(in_, at_);
    return (at_ - from == 1 ? "\\" : "") + std::string(in_.substr(from, at_ - from));
  }

  void put_class() {
    const std::size_t begin = out_.size();
    out_ += '[';
    ++at_;
    if (peek() == '^') {
      out_ += '^';
      ++at_;
    }
    bool first = true, after_set = false;
    for (;; first = false) {
      if (at_ >= in_.size()) refuse("a class without an end");
      const char c = peek();
      if (c == ']' && !first) break;
      if (follows("&&")) refuse("an intersection of classes");
      set_ = false;
      if (c == '\\') {
        class_escape();
      } else if (c == '[') {
        class_in_class();
      } else if (c == '-') {
        const bool range = !first && !after_set && peek(1) != ']' &&
                           !(peek(1) == '\\' && std::string_view("dDsSwWhHpP").find(peek(2)) != std::string_view::npos);
        out_ += range ? "-" : "\\-";
        ++at_;
      } else {
        const std::size_t from = at_;
        next_character(in_, at_);
        if (at_ - from == 1 && !is_alphanumeric(c)) out_ += '\\';
        out_ += in_.substr(from, at_ - from);
      }
      after_set = set_;
    }
    out_ += ']';
    ++at_;
    atom_ = begin;
  }

  void class_escape() {
    if (at_ + 1 >= in_.size()) refuse("a backslash at its end");
    const char c = peek(1);
    std::string meant = common_escape(true);
    if (meant.empty()) {
      if (c == 'b') {
        meant = "\\x08";
        at_ += 2;
      } else {
        meant = escaped_symbol(" in a class");
      }
    }
    out_ += meant;
  }

  void class_in_class() {
    const std::size_t end = in_.find(":]", at_);
    if (peek(1) != ':' || end == std::string_view::npos) refuse("a class in a class");
    const std::string_view name = in_.substr(at_ + 2, end - at_ - 2);
    const auto found = std::ranges::find(kPosix, name, &Meaning::first);
    if (found == std::end(kPosix)) refuse("a POSIX class of this name");
    out_ += found->second;
    at_ = end + 2;
    set_ = true;
  }

  std::string_view in_;
  const std::string& where_;
  std::string out_;
  std::size_t at_ = 0, atom_ = kNone;  // atom_: begin in out_ of the part that a repetition repeats
  std::vector<std::size_t> groups_;
  bool set_ = false;  // the last item of a class stands for several characters
};

}  // namespace

std::string translated_pattern(std::string_view onigurumas, const std::string& where) {
  return Translator(onigurumas, where).run();
}

}  // namespace plimsoll
