// The tokens of recent short words, which text repeats: a fixed table of 1 MiB.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "formats/bpe_vocabulary.h"

namespace plimsoll {

// One entry per hash: a newer word replaces the older one.
class WordCache {
 public:
  static constexpr std::size_t kMaxBytes = 30;
  static constexpr std::size_t kMaxTokens = 8;

  struct alignas(64) Entry {
    std::uint8_t length = 0;  // 0: empty
    std::uint8_t count = 0;
    std::array<char, kMaxBytes> text{};
    std::array<Token, kMaxTokens> tokens{};
  };

  WordCache();

  Entry& entry(std::string_view word);
  static bool holds(const Entry& entry, std::string_view word);
  static void store(Entry& entry, std::string_view word, std::span<const Token> tokens);

 private:
  std::vector<Entry> entries_;
};

}  // namespace plimsoll
