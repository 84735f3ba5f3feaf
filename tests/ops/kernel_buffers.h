// Tools of the kernel tests: buffers between sentinels, random contents, and runs on every instruction set with one and two
// threads.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "base/philox.h"
#include "device/cpu/parallel.h"
#include "hwy/highway.h"

namespace plimsoll::cpu {

// `n` elements, aligned to 64 bytes, between two runs of sentinel bytes. The destructor expects the sentinels intact.
template <class T>
class Guarded {
 public:
  explicit Guarded(std::int64_t n, T value = T{})
      : n_(n),
        bytes_((static_cast<std::size_t>(n) * sizeof(T) + 63) / 64 * 64 + 2 * kGuard),
        memory_(static_cast<unsigned char*>(std::aligned_alloc(64, bytes_)), std::free) {
    std::memset(memory_.get(), kSentinel, bytes_);
    for (std::int64_t i = 0; i < n; ++i) (*this)[i] = value;
  }
  Guarded(Guarded&&) = default;
  ~Guarded() { EXPECT_TRUE(memory_ == nullptr || intact()) << "a write outside " << n_ << " elements"; }

  T* data() { return reinterpret_cast<T*>(memory_.get() + kGuard); }
  const T* data() const { return reinterpret_cast<const T*>(memory_.get() + kGuard); }
  T& operator[](std::int64_t i) { return data()[i]; }
  const T& operator[](std::int64_t i) const { return data()[i]; }
  std::int64_t size() const { return n_; }
  std::byte* bytes() { return reinterpret_cast<std::byte*>(data()); }
  std::vector<T> values() const { return std::vector<T>(data(), data() + n_); }
  Guarded clone() const {
    Guarded other(n_);
    std::memcpy(other.data(), data(), static_cast<std::size_t>(n_) * sizeof(T));
    return other;
  }
  bool operator==(const Guarded& other) const {
    return n_ == other.n_ && std::memcmp(data(), other.data(), static_cast<std::size_t>(n_) * sizeof(T)) == 0;
  }

 private:
  static constexpr std::size_t kGuard = 256;
  static constexpr unsigned char kSentinel = 0xA5;

  bool intact() const {
    const std::size_t end = kGuard + static_cast<std::size_t>(n_) * sizeof(T);
    for (std::size_t i = 0; i < bytes_; ++i) {
      if ((i < kGuard || i >= end) && memory_.get()[i] != kSentinel) return false;
    }
    return true;
  }

  std::int64_t n_;
  std::size_t bytes_;
  std::unique_ptr<unsigned char, void (*)(void*)> memory_;
};

using Floats = Guarded<float>;

inline std::uint32_t random_word(std::uint32_t stream, std::int64_t i) {
  return philox4x32({stream, 7}, {static_cast<std::uint32_t>(i), 0, 0, 0})[0];
}

// Uniform in [-range, range).
inline Floats random_floats(std::int64_t n, std::uint32_t stream, float range = 1) {
  Floats x(n);
  for (std::int64_t i = 0; i < n; ++i) x[i] = range * (2 * unit_float(random_word(stream, i)) - 1);
  return x;
}

// Calls body() once for each compiled instruction set that this machine has.
inline void on_every_target(const std::function<void()>& body) {
  const std::int64_t all = hwy::SupportedTargets() & HWY_TARGETS;
  for (std::int64_t bit = 1; bit != 0 && bit <= HWY_SCALAR; bit <<= 1) {
    if ((all & bit) == 0) continue;
    SCOPED_TRACE(hwy::TargetName(bit));
    hwy::SetSupportedTargetsForTest(bit);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

// result() returns a Guarded. On every instruction set, one and two threads must give equal bits.
template <class Result>
void expect_same_on_threads(Result result) {
  on_every_target([&] {
    set_thread_count(1);
    const auto one = result();
    set_thread_count(2);
    EXPECT_TRUE(one == result());
  });
}

inline const std::vector<std::int64_t>& some_sizes() {
  static const std::vector<std::int64_t> sizes{1, 3, 15, 16, 17, 63, 1000, 16384, 16385, 100003};
  return sizes;
}

}  // namespace plimsoll::cpu
