#define XXH_INLINE_ALL
#include "formats/word_cache.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>

namespace plimsoll {

WordCache::WordCache() : entries_(std::size_t{1} << 14) {}

WordCache::Entry& WordCache::entry(std::string_view word) {
  return entries_[XXH3_64bits(word.data(), word.size()) & (entries_.size() - 1)];
}

bool WordCache::holds(const Entry& entry, std::string_view word) {
  return entry.length == word.size() && std::memcmp(entry.text.data(), word.data(), word.size()) == 0;
}

void WordCache::store(Entry& entry, std::string_view word, std::span<const Token> tokens) {
  entry.length = static_cast<std::uint8_t>(word.size());
  entry.count = static_cast<std::uint8_t>(tokens.size());
  std::ranges::copy(word, entry.text.begin());
  std::ranges::copy(tokens, entry.tokens.begin());
}

}  // namespace plimsoll
