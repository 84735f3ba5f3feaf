// Content hashes: 128 bits of XXH3, printed as 32 hex digits. For identity and checksums, not against an adversary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll {

class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;

  Hasher& add(std::span<const std::byte> bytes);
  // Adds the text and its length, so that ("ab", "c") and ("a", "bc") differ.
  Hasher& add(std::string_view text);
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string hash_hex(std::string_view text);

// 64 bits of XXH3; that of several parts is the last one's, each seeded with the one before.
std::uint64_t checksum(std::span<const std::byte> bytes, std::uint64_t before = 0);

}  // namespace plimsoll
