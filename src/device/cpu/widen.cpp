#include "device/cpu/widen.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "device/cpu/parallel.h"
#include "tensor/half.h"

namespace plimsoll::cpu {

Bytes wide_bytes(std::int64_t elements) { return align_up(Bytes{elements * size_of(DType::f32)}, kCacheLine); }

void widen(DType from, std::int64_t n, const void* x, float* y) {
  constexpr std::int64_t kTask = 1 << 14;
  const auto* bits = static_cast<const std::uint16_t*>(x);
  parallel_for(ceil_div(n, kTask), [&](std::int64_t task) {
    const std::int64_t end = std::min(n, (task + 1) * kTask);
    for (std::int64_t i = task * kTask; i < end; ++i) y[i] = from == DType::bf16 ? widen_bf16(bits[i]) : widen_f16(bits[i]);
  });
}

void narrow(DType to, std::int64_t n, const float* x, void* y) {
  constexpr std::int64_t kTask = 1 << 14;
  auto* bits = static_cast<std::uint16_t*>(y);
  parallel_for(ceil_div(n, kTask), [&](std::int64_t task) {
    const std::int64_t end = std::min(n, (task + 1) * kTask);
    for (std::int64_t i = task * kTask; i < end; ++i) bits[i] = to == DType::bf16 ? narrow_bf16(x[i]) : narrow_f16(x[i]);
  });
}

}  // namespace plimsoll::cpu
