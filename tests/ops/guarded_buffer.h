// A buffer for kernel tests: aligned to 64 bytes as in the arena, poisoned with NaN, and between guards that detect stray writes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "base/philox.h"

namespace plimsoll::cpu {

class GuardedBuffer {
 public:
  explicit GuardedBuffer(std::int64_t floats)
      : floats_(floats),
        words_(static_cast<std::uint32_t*>(
            ::operator new (static_cast<std::size_t>(floats + 2 * kGuard + 16) * 4, std::align_val_t{64}))) {
    std::fill(words_.get(), words_.get() + floats + 2 * kGuard, kSentinel);
    std::fill(words_.get() + kGuard, words_.get() + kGuard + floats, kPoison);
  }

  float* data() { return reinterpret_cast<float*>(words_.get() + kGuard); }
  const float* data() const { return reinterpret_cast<const float*>(words_.get() + kGuard); }
  std::byte* bytes() { return reinterpret_cast<std::byte*>(data()); }
  std::int64_t size() const { return floats_; }

  bool intact() const {
    const auto is_sentinel = [](std::uint32_t word) { return word == kSentinel; };
    const std::uint32_t* const end = words_.get() + kGuard + floats_;
    return std::all_of(words_.get(), words_.get() + kGuard, is_sentinel) && std::all_of(end, end + kGuard, is_sentinel);
  }
  // True if any of the last 64 bytes has changed: a scratch that is larger than needed fails.
  bool last_line_written() const {
    const std::uint32_t* const end = words_.get() + kGuard + floats_;
    return std::any_of(end - std::min<std::int64_t>(16, floats_), end, [](std::uint32_t word) { return word != kPoison; });
  }
  friend bool operator==(const GuardedBuffer& a, const GuardedBuffer& b) {
    return a.floats_ == b.floats_ && std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.floats_) * 4) == 0;
  }

 private:
  struct Delete {
    void operator()(std::uint32_t* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  static constexpr std::int64_t kGuard = 64;
  static constexpr std::uint32_t kSentinel = 0x5EA1ED00, kPoison = 0x7FC0BEEF;  // kPoison is a NaN
  std::int64_t floats_;
  std::unique_ptr<std::uint32_t[], Delete> words_;
};

// Uniform in [-1, 1), a function of stream and index.
inline void fill_random(GuardedBuffer& buffer, std::uint32_t stream) {
  for (std::int64_t i = 0; i < buffer.size(); ++i) {
    buffer.data()[i] = 2 * unit_float(philox4x32({stream, 77}, {static_cast<std::uint32_t>(i), 0, 0, 0})[0]) - 1;
  }
}

// The largest difference; NaN counts as infinite.
inline double largest_difference(const GuardedBuffer& actual, const std::vector<double>& expected) {
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(double{actual.data()[i]} - expected[i]);
    worst = std::max(worst, std::isnan(difference) ? HUGE_VAL : difference);
  }
  return worst;
}

// The largest difference divided by the largest expected magnitude.
inline double largest_error(const GuardedBuffer& actual, const std::vector<double>& expected) {
  double scale = 1e-30;
  for (const double value : expected) scale = std::max(scale, std::abs(value));
  return largest_difference(actual, expected) / scale;
}

}  // namespace plimsoll::cpu
