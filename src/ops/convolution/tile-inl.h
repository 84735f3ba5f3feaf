// Tiles of sums, and copies of their operands, for the kernels of convolutions. Included once for each Highway target.
#if defined(PLIMSOLL_OPS_CONVOLUTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_OPS_CONVOLUTION_TILE_INL_H_
#undef PLIMSOLL_OPS_CONVOLUTION_TILE_INL_H_
#else
#define PLIMSOLL_OPS_CONVOLUTION_TILE_INL_H_
#endif

#include <cstdint>
#include <type_traits>

#include "base/ceil_div.h"
#include "device/cpu/narrow-inl.h"
#include "hwy/highway.h"
#include "tensor/half.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

// A tile has kTileRows rows and up to kVectors vectors: with AVX-512 24 sums, three vectors of the right operand and one of the
// left.
inline constexpr int kVectors = 3;
inline constexpr int kTileRows = HWY_TARGET == HWY_AVX3 ? 8 : 4;

// The vectors of the panels of a strip: as equal as possible, at most kVectors.
struct Panels {
  std::int64_t vectors, panels;
  explicit Panels(std::int64_t columns) : vectors(ceil_div(columns, kLanes)), panels(ceil_div(vectors, kVectors)) {}
  bool next(std::int64_t& width) {
    if (panels == 0) return false;
    width = ceil_div(vectors, panels);
    vectors -= width, --panels;
    return true;
  }
};

HWY_INLINE float widen(std::uint16_t bf16) { return widen_bf16(bf16); }
HWY_INLINE float widen(F16 f16) { return widen_f16(static_cast<std::uint16_t>(f16)); }

// Copies `count` elements as floats; writes up to a vector past the end.
template <class T>
HWY_INLINE void copy_wide(const T* HWY_RESTRICT from, std::int64_t count, float* HWY_RESTRICT to) {
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(load(from + i), F32(), to + i);
  if (i == count) return;
#if HWY_TARGET <= HWY_AVX2
  if constexpr (std::is_same_v<T, float>) {
    hn::StoreU(hn::MaskedLoad(hn::FirstN(F32(), static_cast<std::size_t>(count - i)), F32(), from + i), F32(), to + i);
    return;
  }
#endif
  hn::StoreU(load_part(from + i, count - i), F32(), to + i);
}

// Stores the first `rest` elements of a vector as floats, and zeros for the others.
template <class T>
HWY_INLINE void pack_vector(const T* HWY_RESTRICT from, std::int64_t rest, float* HWY_RESTRICT to) {
  hn::Store(rest >= kLanes ? load(from) : rest > 0 ? load_part(from, rest) : hn::Zero(F32()), F32(), to);
}

// Writes zeros, up to a vector past the end.
HWY_INLINE void clear(float* from, const float* end) {
  for (; from < end; from += kLanes) hn::StoreU(hn::Zero(F32()), F32(), from);
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PLIMSOLL_OPS_CONVOLUTION_TILE_INL_H_
