// Memory of the benchmarks, as in a run: an arena in huge pages, touched once. Rows lie kilobytes apart, so page walks and first
// touches would distort the times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "device/arena.h"

namespace plimsoll::bench {

class Buffer {
 public:
  Buffer() = default;
  // A buffer of zeros.
  explicit Buffer(std::int64_t floats) : arena_(std::make_unique<Arena>(Bytes{4 * floats})) {}
  explicit Buffer(Bytes bytes) : arena_(std::make_unique<Arena>(bytes)) {}

  float* get() const { return reinterpret_cast<float*>(bytes()); }
  std::byte* bytes() const { return arena_->base(); }
  float& operator[](std::int64_t i) const { return get()[i]; }

 private:
  std::unique_ptr<Arena> arena_;
};

// A buffer of small, different numbers.
inline Buffer numbers(std::int64_t floats) {
  Buffer b(floats);
  for (std::int64_t i = 0; i < floats; ++i) b[i] = static_cast<float>(i % 1023 - 511) * 1e-3F;
  return b;
}

}  // namespace plimsoll::bench
