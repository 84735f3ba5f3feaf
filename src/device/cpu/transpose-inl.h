// Transposition of packed operands. Included once for each Highway target.
#if defined(PLIMSOLL_DEVICE_CPU_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_DEVICE_CPU_TRANSPOSE_INL_H_
#undef PLIMSOLL_DEVICE_CPU_TRANSPOSE_INL_H_
#else
#define PLIMSOLL_DEVICE_CPU_TRANSPOSE_INL_H_
#endif

#include <cstdint>

#include "device/cpu/floats-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

// to [columns x rows] = from [rows x columns] transposed; strides are floats from row to row. Rows of `to` are 16-byte aligned.
HWY_INLINE void transpose(const float* HWY_RESTRICT from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns,
                          float* HWY_RESTRICT to, std::int64_t to_stride) {
  std::int64_t whole_rows = 0, whole_columns = 0;
#if HWY_TARGET != HWY_SCALAR
  whole_rows = rows / 4 * 4, whole_columns = columns / 4 * 4;
  const hn::FixedTag<float, 4> d;
  const hn::FixedTag<std::uint64_t, 2> d64;
  for (std::int64_t r = 0; r < whole_rows; r += 4) {
    const float *in0 = from + r * from_stride, *in1 = in0 + from_stride, *in2 = in1 + from_stride, *in3 = in2 + from_stride;
    for (std::int64_t c = 0; c < whole_columns; c += 4) {
      const auto a = hn::LoadU(d, in0 + c), b = hn::LoadU(d, in1 + c), e = hn::LoadU(d, in2 + c), f = hn::LoadU(d, in3 + c);
      const auto lower0 = hn::BitCast(d64, hn::InterleaveLower(d, a, b)), lower1 = hn::BitCast(d64, hn::InterleaveLower(d, e, f));
      const auto upper0 = hn::BitCast(d64, hn::InterleaveUpper(d, a, b)), upper1 = hn::BitCast(d64, hn::InterleaveUpper(d, e, f));
      float* const out = to + c * to_stride + r;
      hn::Store(hn::BitCast(d, hn::InterleaveLower(d64, lower0, lower1)), d, out);
      hn::Store(hn::BitCast(d, hn::InterleaveUpper(d64, lower0, lower1)), d, out + to_stride);
      hn::Store(hn::BitCast(d, hn::InterleaveLower(d64, upper0, upper1)), d, out + 2 * to_stride);
      hn::Store(hn::BitCast(d, hn::InterleaveUpper(d64, upper0, upper1)), d, out + 3 * to_stride);
    }
  }
#endif
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c) to[c * to_stride + r] = from[r * from_stride + c];
  }
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PLIMSOLL_DEVICE_CPU_TRANSPOSE_INL_H_
