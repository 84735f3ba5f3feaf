#include "tensor/half.h"

#include <cstring>

#include "base/error.h"

namespace plimsoll {
namespace {

template <float (*kWiden)(std::uint16_t)>
void widen_all(const std::byte* bytes, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes + 2 * i, 2);
    out[i] = kWiden(bits);
  }
}

template <std::uint16_t (*kNarrow)(float)>
void narrow_all(std::span<const float> numbers, std::byte* out) {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::uint16_t bits = kNarrow(numbers[i]);
    std::memcpy(out + 2 * i, &bits, 2);
  }
}

}  // namespace

void widen(DType from, const std::byte* bytes, std::span<float> out) {
  if (from == DType::f16) return widen_all<widen_f16>(bytes, out);
  if (from == DType::bf16) return widen_all<widen_bf16>(bytes, out);
  ensure(from == DType::f32, "widen", "another type than fp32, fp16 and bf16");
  if (!out.empty()) std::memcpy(out.data(), bytes, out.size_bytes());
}

void narrow(DType to, std::span<const float> numbers, std::byte* out) {
  if (to == DType::f16) return narrow_all<narrow_f16>(numbers, out);
  if (to == DType::bf16) return narrow_all<narrow_bf16>(numbers, out);
  ensure(to == DType::f32, "narrow", "another type than fp32, fp16 and bf16");
  if (!numbers.empty()) std::memcpy(out, numbers.data(), numbers.size_bytes());
}

}  // namespace plimsoll
