// Content hashes: 128 bits of XXH3, printed as 32 hex digits, or half of them as a number. For identity and checksums, not
// against an adversary.
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
  std::uint64_t low64() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string hash_hex(std::string_view text);

}  // namespace plimsoll
