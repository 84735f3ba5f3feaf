// Bytes and digests that are equal in the tests and in the reference script (digests.py).
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace plimsoll {

// The same bytes on every machine.
class TestBytes {
 public:
  explicit TestBytes(std::uint64_t seed) : state_(seed) {}

  std::uint8_t next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint8_t>(state_ >> 56);
  }

  std::vector<std::byte> take(std::size_t count) {
    std::vector<std::byte> bytes(count);
    for (std::byte& byte : bytes) byte = std::byte{next()};
    return bytes;
  }

  // Multiples of 2^-12 in (-8, 8), most of them small.
  float value() {
    const int high = next(), low = next(), shift = next() % 8;
    return static_cast<float>((high * 256 + low - 32768) >> shift) * 0x1p-12f;
  }

 private:
  std::uint64_t state_;
};

// The FNV-1a hash.
inline std::uint64_t digest(std::span<const std::byte> bytes) {
  std::uint64_t sum = 14695981039346656037u;
  for (const std::byte byte : bytes) sum = (sum ^ static_cast<std::uint8_t>(byte)) * 1099511628211u;
  return sum;
}

// The digest of the bits; all NaNs count as equal.
inline std::uint64_t digest(std::span<const float> values) {
  std::uint64_t sum = 14695981039346656037u;
  for (const float value : values) {
    const std::uint32_t bits = std::isnan(value) ? 0x7fc00000u : std::bit_cast<std::uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) sum = (sum ^ (bits >> shift & 255u)) * 1099511628211u;
  }
  return sum;
}

}  // namespace plimsoll
