#include "data/text_bytes.h"

#include <string_view>

#include "formats/utf8.h"

namespace plimsoll {
namespace {

constexpr std::size_t kLongestCharacter = 4;

}  // namespace

// Removes whole characters and invalid bytes from the front of `text`; returns the invalid ones. `last`: nothing follows.
static std::int64_t count_invalid(std::string_view& text, bool last) {
  std::int64_t invalid = 0;
  while (true) {
    text.remove_prefix(utf8_valid_prefix(text));
    if (text.empty() || (!last && text.size() < kLongestCharacter)) return invalid;
    ++invalid;
    text.remove_prefix(1);
  }
}

void Utf8Meter::add(std::span<const std::byte> piece) {
  count_.bytes += std::ssize(piece);
  const std::string whole = left_ + std::string(reinterpret_cast<const char*>(piece.data()), piece.size());
  std::string_view text = whole;
  count_.invalid += count_invalid(text, /*last=*/false);
  left_ = text;
}

Utf8Count Utf8Meter::finish() const {
  Utf8Count count = count_;
  std::string_view text = left_;
  count.invalid += count_invalid(text, /*last=*/true);
  return count;
}

}  // namespace plimsoll
