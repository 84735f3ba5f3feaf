#include "formats/tokenizer/character.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "base/error.h"

namespace plimsoll {
namespace {

struct Range {
  char32_t first, last;
};

template <std::size_t N>
bool holds(const Range (&ranges)[N], char32_t character) {
  const Range* found = std::upper_bound(std::begin(ranges), std::end(ranges), character,
                                        [](char32_t value, const Range& range) { return value < range.first; });
  return found != std::begin(ranges) && character <= std::prev(found)->last;
}

// Code points for which the tables of tokenizers are older than Unicode 14 or contradict it. Each is in the class if and only if
// utf8proc says that it is not. tests/tokenizers/compare.py finds them.
constexpr Range kPunctuationDiffers[]{
    {0x61D, 0x61D},     {0x9FD, 0x9FD},     {0xA76, 0xA76},     {0xC77, 0xC77},     {0xC84, 0xC84},     {0x166D, 0x166D},
    {0x1B7D, 0x1B7E},   {0x2E43, 0x2E4F},   {0x2E52, 0x2E5D},   {0x10EAD, 0x10EAD}, {0x10F55, 0x10F59}, {0x10F86, 0x10F89},
    {0x111C9, 0x111C9}, {0x1144B, 0x1144F}, {0x1145A, 0x1145B}, {0x1145D, 0x1145D}, {0x11660, 0x1166C}, {0x116B9, 0x116B9},
    {0x1183B, 0x1183B}, {0x11944, 0x11946}, {0x119E2, 0x119E2}, {0x11A3F, 0x11A46}, {0x11A9A, 0x11A9C}, {0x11A9E, 0x11AA2},
    {0x11C41, 0x11C45}, {0x11C70, 0x11C71}, {0x11EF7, 0x11EF8}, {0x11FFF, 0x11FFF}, {0x12FF1, 0x12FF2}, {0x16E97, 0x16E9A},
    {0x16FE2, 0x16FE2}, {0x1E95E, 0x1E95F}};
constexpr Range kControlDiffers[]{{0x890, 0x891}, {0x8E2, 0x8E2}, {0x110CD, 0x110CD}, {0x13430, 0x13438}};
constexpr Range kBertAccentDiffers[]{
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8E1},     {0x9FE, 0x9FE},     {0xAFA, 0xAFF},     {0xB55, 0xB55},
    {0xC04, 0xC04},     {0xC3C, 0xC3C},     {0xD00, 0xD00},     {0xD3B, 0xD3C},     {0xD81, 0xD81},     {0xEBA, 0xEBA},
    {0x1734, 0x1734},   {0x180F, 0x180F},   {0x1885, 0x1886},   {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFB},   {0xA82C, 0xA82C},
    {0xA8C5, 0xA8C5},   {0xA8FF, 0xA8FF},   {0xA9BD, 0xA9BD},   {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10F46, 0x10F50},
    {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x11073, 0x11074}, {0x110C2, 0x110C2}, {0x111C9, 0x111C9}, {0x111CF, 0x111CF},
    {0x1123E, 0x1123E}, {0x1133B, 0x1133B}, {0x11438, 0x1143F}, {0x11442, 0x11444}, {0x11446, 0x11446}, {0x1145E, 0x1145E},
    {0x1182F, 0x11837}, {0x11839, 0x1183A}, {0x1193B, 0x1193C}, {0x1193E, 0x1193E}, {0x11943, 0x11943}, {0x119D4, 0x119D7},
    {0x119DA, 0x119DB}, {0x119E0, 0x119E0}, {0x11A01, 0x11A0A}, {0x11A33, 0x11A38}, {0x11A3B, 0x11A3E}, {0x11A47, 0x11A47},
    {0x11A51, 0x11A56}, {0x11A59, 0x11A5B}, {0x11A8A, 0x11A96}, {0x11A98, 0x11A99}, {0x11C30, 0x11C36}, {0x11C38, 0x11C3D},
    {0x11C3F, 0x11C3F}, {0x11C92, 0x11CA7}, {0x11CAA, 0x11CB0}, {0x11CB2, 0x11CB3}, {0x11CB5, 0x11CB6}, {0x11D31, 0x11D36},
    {0x11D3A, 0x11D3A}, {0x11D3C, 0x11D3D}, {0x11D3F, 0x11D45}, {0x11D47, 0x11D47}, {0x11D90, 0x11D91}, {0x11D95, 0x11D95},
    {0x11D97, 0x11D97}, {0x11EF3, 0x11EF4}, {0x16F4F, 0x16F4F}, {0x16FE4, 0x16FE4}, {0x1CF00, 0x1CF2D}, {0x1CF30, 0x1CF46},
    {0x1E000, 0x1E006}, {0x1E008, 0x1E018}, {0x1E01B, 0x1E021}, {0x1E023, 0x1E024}, {0x1E026, 0x1E02A}, {0x1E130, 0x1E136},
    {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E944, 0x1E94A}};
// Characters that the normal forms of tokenizers do not know: no decomposition, no combining class, no composition. They act as
// starters, so the texts on both sides of one are normalised separately.
constexpr Range kOpaque[]{
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},     {0xC3C, 0xC3C},     {0xD3B, 0xD3C},
    {0xEBA, 0xEBA},     {0x1715, 0x1715},   {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},   {0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},
    {0xA82C, 0xA82C},   {0xAB69, 0xAB69},   {0x10781, 0x10785}, {0x10787, 0x107B0}, {0x107B2, 0x107BA}, {0x10D24, 0x10D27},
    {0x10EAB, 0x10EAC}, {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E},
    {0x11839, 0x1183A}, {0x11930, 0x11930}, {0x11938, 0x11938}, {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0},
    {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97},
    {0x16FF0, 0x16FF1}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9}};

utf8proc_category_t category(char32_t character) { return utf8proc_category(static_cast<utf8proc_int32_t>(character)); }

bool is_between(char32_t character, char32_t first, char32_t last) { return character >= first && character <= last; }

// GPT-2 writes each byte as one printable character: itself if it is printable in Latin-1, else the next one from 256 on.
struct ByteAlphabet {
  std::array<std::uint16_t, 256> character{};
  std::array<std::int16_t, 324> byte{};

  constexpr ByteAlphabet() {
    byte.fill(-1);
    std::uint16_t next = 256;
    for (unsigned b = 0; b < 256; ++b) {
      const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      character[b] = printable ? static_cast<std::uint16_t>(b) : next++;
      byte[character[b]] = static_cast<std::int16_t>(b);
    }
  }
};
constexpr ByteAlphabet kAlphabet;

using Points = std::vector<utf8proc_int32_t>;

utf8proc_propval_t combining_class(utf8proc_int32_t point) { return utf8proc_get_property(point)->combining_class; }

// The decomposition of text without opaque characters, in canonical order.
void decompose(std::string_view text, bool compatible, Points& points) {
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE | (compatible ? UTF8PROC_COMPAT : 0));
  std::array<utf8proc_int32_t, 32> parts;  // the longest decomposition has 18
  int boundary = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto point = static_cast<utf8proc_int32_t>(next_character(text, at));
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(point, parts.data(), static_cast<utf8proc_ssize_t>(parts.size()), options, &boundary);
    ensure(count >= 0 && count <= std::ssize(parts), "normalized", "utf8proc does not decompose a character");
    points.insert(points.end(), parts.begin(), parts.begin() + count);
  }
  for (std::size_t begin = 0; begin < points.size();) {
    if (combining_class(points[begin]) == 0) {
      ++begin;
      continue;
    }
    std::size_t end = begin;
    while (end < points.size() && combining_class(points[end]) != 0) ++end;
    std::stable_sort(points.begin() + static_cast<std::ptrdiff_t>(begin), points.begin() + static_cast<std::ptrdiff_t>(end),
                     [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    begin = end;
  }
}

void append_normalized(NormalForm form, std::string_view text, std::string& out) {
  const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  Points points;
  points.reserve(text.size());
  decompose(text, compatible, points);
  auto count = std::ssize(points);
  if (form == NormalForm::nfc || form == NormalForm::nfkc) {
    count = utf8proc_normalize_utf32(points.data(), count, static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
    ensure(count >= 0, "normalized", "utf8proc does not compose");
  }
  for (std::ptrdiff_t i = 0; i < count; ++i) append_character(out, static_cast<char32_t>(points[static_cast<std::size_t>(i)]));
}

}  // namespace

char32_t next_character(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const char32_t first = byte(0);
  if (first < 0x80) {
    at += 1;
    return first;
  }
  if (first < 0xE0) {
    const char32_t character = (first & 0x1F) << 6 | (byte(1) & 0x3F);
    at += 2;
    return character;
  }
  if (first < 0xF0) {
    const char32_t character = (first & 0x0F) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3F);
    at += 3;
    return character;
  }
  const char32_t character = (first & 0x07) << 18 | (byte(1) & 0x3Fu) << 12 | (byte(2) & 0x3Fu) << 6 | (byte(3) & 0x3F);
  at += 4;
  return character;
}

std::size_t character_before(std::string_view text, std::size_t end) {
  do --end;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80);
  return end;
}

void append_character(std::string& text, char32_t character) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (character < 0x80) {
    put(character);
  } else if (character < 0x800) {
    put(0xC0 | character >> 6);
    put(0x80 | (character & 0x3F));
  } else if (character < 0x10000) {
    put(0xE0 | character >> 12);
    put(0x80 | (character >> 6 & 0x3F));
    put(0x80 | (character & 0x3F));
  } else {
    put(0xF0 | character >> 18);
    put(0x80 | (character >> 12 & 0x3F));
    put(0x80 | (character >> 6 & 0x3F));
    put(0x80 | (character & 0x3F));
  }
}

std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

bool is_white_space(char32_t c) {
  if (c < 0x80) return c == ' ' || is_between(c, 9, 13);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || is_between(c, 0x2000, 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool is_numeric(char32_t c) {
  if (c < 0x80) return is_between(c, '0', '9');
  const utf8proc_category_t kind = category(c);
  return kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL || kind == UTF8PROC_CATEGORY_NO;
}

bool is_punctuation(char32_t c) {
  if (c < 0x80) return is_between(c, 33, 47) || is_between(c, 58, 64) || is_between(c, 91, 96) || is_between(c, 123, 126);
  const utf8proc_category_t kind = category(c);
  return (kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO) != holds(kPunctuationDiffers, c);
}

bool is_bert_control(char32_t c) {
  if (c < 0x80) return (c < 32 || c == 127) && c != '\t' && c != '\n' && c != '\r';
  const utf8proc_category_t kind = category(c);
  const bool control = kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CF || kind == UTF8PROC_CATEGORY_CO;
  return control != holds(kControlDiffers, c);
}

bool is_bert_ideograph(char32_t c) {
  return is_between(c, 0x4E00, 0x9FFF) || is_between(c, 0x3400, 0x4DBF) || is_between(c, 0x20000, 0x2A6DF) ||
         is_between(c, 0x2A700, 0x2B73F) || is_between(c, 0x2B740, 0x2B81F) || is_between(c, 0x2B920, 0x2CEAF) ||
         is_between(c, 0xF900, 0xFAFF) || is_between(c, 0x2F800, 0x2FA1F);
}

bool is_bert_accent(char32_t c) { return c >= 0x300 && (category(c) == UTF8PROC_CATEGORY_MN) != holds(kBertAccentDiffers, c); }

void append_lowercase(std::string& text, char32_t c) {
  if (c < 0x80) {
    text += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  } else if (c == 0x130) {
    text += "i\xcc\x87";
  } else {
    append_character(text, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
  }
}

char32_t byte_character(unsigned char byte) { return kAlphabet.character[byte]; }

int byte_of_character(char32_t character) { return character < kAlphabet.byte.size() ? kAlphabet.byte[character] : -1; }

std::string in_byte_characters(std::string_view bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char byte : bytes) append_character(text, byte_character(static_cast<unsigned char>(byte)));
  return text;
}

std::optional<std::string> from_byte_characters(std::string_view text) {
  std::string bytes;
  for (std::size_t at = 0; at < text.size();) {
    const int byte = byte_of_character(next_character(text, at));
    if (byte < 0) return {};
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

std::string normalized(NormalForm form, std::string_view text) {
  // Characters below these neither change nor join with the character before them.
  const char32_t least = form == NormalForm::nfc ? 0x300 : 0x80;
  std::string out;
  std::size_t begin = 0;
  bool plain = true;  // of [begin, at)
  const auto close = [&](std::size_t end) {
    if (plain) {
      out += text.substr(begin, end - begin);
    } else {
      append_normalized(form, text.substr(begin, end - begin), out);
    }
    plain = true;
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t here = at;
    const char32_t character = next_character(text, at);
    if (character < least) continue;
    if (character >= kOpaque[0].first && holds(kOpaque, character)) {
      close(here);
      out += text.substr(here, at - here);
      begin = at;
    } else {
      plain = false;
    }
  }
  close(text.size());
  return out;
}

}  // namespace plimsoll
