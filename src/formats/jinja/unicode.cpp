#include "formats/jinja/unicode.h"

#include <utf8proc.h>

#include <optional>

#include "formats/tokenizer/character.h"
#include "formats/utf8.h"

namespace plimsoll::jinja {
namespace {

utf8proc_category_t category(char32_t character) { return utf8proc_category(static_cast<utf8proc_int32_t>(character)); }

// Characters with several upper-case characters (SpecialCasing.txt of Unicode): character=upper case, then /title case if it
// differs.
constexpr std::string_view kSpecial =
    "\u00df=SS/Ss \u0149=\u02bcN \u01f0=J\u030c \u0390=\u0399\u0308\u0301 \u03b0=\u03a5\u0308\u0301 "
    "\u0587=\u0535\u0552/\u0535\u0582 \u1e96=H\u0331 \u1e97=T\u0308 \u1e98=W\u030a \u1e99=Y\u030a \u1e9a=A\u02be "
    "\u1f50=\u03a5\u0313 \u1f52=\u03a5\u0313\u0300 \u1f54=\u03a5\u0313\u0301 \u1f56=\u03a5\u0313\u0342 "
    "\u1f80=\u1f08\u0399/\u1f88 \u1f81=\u1f09\u0399/\u1f89 \u1f82=\u1f0a\u0399/\u1f8a \u1f83=\u1f0b\u0399/\u1f8b "
    "\u1f84=\u1f0c\u0399/\u1f8c \u1f85=\u1f0d\u0399/\u1f8d \u1f86=\u1f0e\u0399/\u1f8e \u1f87=\u1f0f\u0399/\u1f8f "
    "\u1f88=\u1f08\u0399/\u1f88 \u1f89=\u1f09\u0399/\u1f89 \u1f8a=\u1f0a\u0399/\u1f8a \u1f8b=\u1f0b\u0399/\u1f8b "
    "\u1f8c=\u1f0c\u0399/\u1f8c \u1f8d=\u1f0d\u0399/\u1f8d \u1f8e=\u1f0e\u0399/\u1f8e \u1f8f=\u1f0f\u0399/\u1f8f "
    "\u1f90=\u1f28\u0399/\u1f98 \u1f91=\u1f29\u0399/\u1f99 \u1f92=\u1f2a\u0399/\u1f9a \u1f93=\u1f2b\u0399/\u1f9b "
    "\u1f94=\u1f2c\u0399/\u1f9c \u1f95=\u1f2d\u0399/\u1f9d \u1f96=\u1f2e\u0399/\u1f9e \u1f97=\u1f2f\u0399/\u1f9f "
    "\u1f98=\u1f28\u0399/\u1f98 \u1f99=\u1f29\u0399/\u1f99 \u1f9a=\u1f2a\u0399/\u1f9a \u1f9b=\u1f2b\u0399/\u1f9b "
    "\u1f9c=\u1f2c\u0399/\u1f9c \u1f9d=\u1f2d\u0399/\u1f9d \u1f9e=\u1f2e\u0399/\u1f9e \u1f9f=\u1f2f\u0399/\u1f9f "
    "\u1fa0=\u1f68\u0399/\u1fa8 \u1fa1=\u1f69\u0399/\u1fa9 \u1fa2=\u1f6a\u0399/\u1faa \u1fa3=\u1f6b\u0399/\u1fab "
    "\u1fa4=\u1f6c\u0399/\u1fac \u1fa5=\u1f6d\u0399/\u1fad \u1fa6=\u1f6e\u0399/\u1fae \u1fa7=\u1f6f\u0399/\u1faf "
    "\u1fa8=\u1f68\u0399/\u1fa8 \u1fa9=\u1f69\u0399/\u1fa9 \u1faa=\u1f6a\u0399/\u1faa \u1fab=\u1f6b\u0399/\u1fab "
    "\u1fac=\u1f6c\u0399/\u1fac \u1fad=\u1f6d\u0399/\u1fad \u1fae=\u1f6e\u0399/\u1fae \u1faf=\u1f6f\u0399/\u1faf "
    "\u1fb2=\u1fba\u0399/\u1fba\u0345 \u1fb3=\u0391\u0399/\u1fbc \u1fb4=\u0386\u0399/\u0386\u0345 \u1fb6=\u0391\u0342 "
    "\u1fb7=\u0391\u0342\u0399/\u0391\u0342\u0345 \u1fbc=\u0391\u0399/\u1fbc \u1fc2=\u1fca\u0399/\u1fca\u0345 "
    "\u1fc3=\u0397\u0399/\u1fcc \u1fc4=\u0389\u0399/\u0389\u0345 \u1fc6=\u0397\u0342 "
    "\u1fc7=\u0397\u0342\u0399/\u0397\u0342\u0345 \u1fcc=\u0397\u0399/\u1fcc \u1fd2=\u0399\u0308\u0300 "
    "\u1fd3=\u0399\u0308\u0301 \u1fd6=\u0399\u0342 \u1fd7=\u0399\u0308\u0342 \u1fe2=\u03a5\u0308\u0300 "
    "\u1fe3=\u03a5\u0308\u0301 \u1fe4=\u03a1\u0313 \u1fe6=\u03a5\u0342 \u1fe7=\u03a5\u0308\u0342 "
    "\u1ff2=\u1ffa\u0399/\u1ffa\u0345 \u1ff3=\u03a9\u0399/\u1ffc \u1ff4=\u038f\u0399/\u038f\u0345 \u1ff6=\u03a9\u0342 "
    "\u1ff7=\u03a9\u0342\u0399/\u03a9\u0342\u0345 \u1ffc=\u03a9\u0399/\u1ffc \ufb00=FF/Ff \ufb01=FI/Fi \ufb02=FL/Fl "
    "\ufb03=FFI/Ffi \ufb04=FFL/Ffl \ufb05=ST/St \ufb06=ST/St \ufb13=\u0544\u0546/\u0544\u0576 "
    "\ufb14=\u0544\u0535/\u0544\u0565 \ufb15=\u0544\u053b/\u0544\u056b \ufb16=\u054e\u0546/\u054e\u0576 "
    "\ufb17=\u0544\u053d/\u0544\u056d ";

struct Special {
  std::string_view upper, title;
};
std::optional<Special> special(char32_t c) {
  if (c < 0xDF || c > 0xFB17) return {};
  std::string key;
  append_character(key, c);
  const std::size_t found = kSpecial.find(key += '=');
  if (found == std::string_view::npos) return {};
  std::string_view both = kSpecial.substr(found + key.size());
  both = both.substr(0, both.find(' '));
  const std::size_t slash = both.find('/');
  return slash == std::string_view::npos ? Special{both, both} : Special{both.substr(0, slash), both.substr(slash + 1)};
}

// Characters that do not end a word in the rule for sigma.
bool is_ignored(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK: return true;
    default: return c == U'\'' || c == U'.' || c == U':' || c == 0xB7 || c == 0x2018 || c == 0x2019 || c == 0x2024 || c == 0x2027;
  }
}

// The lower case of sigma at the end of a word is a different letter.
bool ends_word(std::string_view text, std::size_t begin, std::size_t end) {
  bool before = false;
  for (std::size_t at = begin; at > 0 && !before;) {
    std::size_t next = at = character_before(text, at);
    const char32_t c = next_character(text, next);
    if (!is_ignored(c) && !is_cased(c)) break;
    before = !is_ignored(c);
  }
  if (!before) return false;
  while (end < text.size()) {
    const char32_t c = next_character(text, end);
    if (!is_ignored(c)) return !is_cased(c);
  }
  return true;
}

void append_lower(std::string& out, std::string_view text, std::size_t begin, std::size_t end, char32_t c) {
  if (c == 0x3A3) {
    out += ends_word(text, begin, end) ? "\u03c2" : "\u03c3";
  } else {
    append_lowercase(out, c);
  }
}

void append_upper(std::string& out, char32_t c) {
  if (const auto found = special(c)) {
    out += found->upper;
  } else {
    append_character(out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
  }
}

}  // namespace

bool is_space(char32_t c) { return (c >= 0x1C && c <= 0x1F) || is_white_space(c); }

bool is_printable(char32_t c) {
  if (c == U' ') return true;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
  }
}

bool is_letter(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_upper(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LU; }
bool is_lower(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA; }
bool is_cased(char32_t c) { return is_upper(c) || is_lower(c) || category(c) == UTF8PROC_CATEGORY_LT; }
bool is_digit(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND || c == 0xB2 || c == 0xB3 || c == 0xB9; }

std::string upper(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) append_upper(out, next_character(text, at));
  return out;
}

std::string lower(std::string_view text, std::size_t begin, std::size_t end) {
  std::string out;
  for (std::size_t at = begin; at < end;) {
    const std::size_t first = at;
    const char32_t c = next_character(text, at);
    append_lower(out, text, first, at, c);
  }
  return out;
}

std::string capitalize(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = next_character(text, at);
    if (begin > 0) {
      append_lower(out, text, begin, at, c);
    } else if (const auto found = special(c)) {
      out += found->title;
    } else {
      append_character(out, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))));
    }
  }
  return out;
}

std::size_t space_end(std::string_view text, std::size_t from) { return run_end(text, from, is_space); }

std::size_t space_begin(std::string_view text, std::size_t end, std::size_t least) {
  return run_begin(text, end, least, is_space);
}

std::size_t byte_of(std::string_view text, std::size_t index) {
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    if (!is_utf8_continuation(text[at]) && index-- == 0) break;
  }
  return at;
}

}  // namespace plimsoll::jinja
