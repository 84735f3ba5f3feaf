// Blocks of accumulators that stay in registers, for kernels of matrix products. Included once for each Highway target.
#if defined(PLIMSOLL_DEVICE_CPU_REGISTER_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLIMSOLL_DEVICE_CPU_REGISTER_BLOCK_INL_H_
#undef PLIMSOLL_DEVICE_CPU_REGISTER_BLOCK_INL_H_
#else
#define PLIMSOLL_DEVICE_CPU_REGISTER_BLOCK_INL_H_
#endif

#include <cstdint>

#include "device/cpu/floats-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

// Nested structs and not arrays, so that every element stays in a register.
template <int N>
struct RowBlock {
  Floats first;
  RowBlock<N - 1> rest;

  HWY_INLINE void zero() {
    first = hn::Zero(F32());
    rest.zero();
  }
  HWY_INLINE void load(const float* HWY_RESTRICT p) {
    first = hn::Load(F32(), p);
    rest.load(p + kLanes);
  }
  HWY_INLINE void load_unaligned(const float* HWY_RESTRICT p) {
    first = hn::LoadU(F32(), p);
    rest.load_unaligned(p + kLanes);
  }
  HWY_INLINE void scale(Floats factor) {
    first = hn::Mul(first, factor);
    rest.scale(factor);
  }
  HWY_INLINE void multiply_add(Floats a, const RowBlock& b) {
    first = hn::MulAdd(a, b.first, first);
    rest.multiply_add(a, b.rest);
  }
  HWY_INLINE void store(float* HWY_RESTRICT p) const {
    hn::Store(first, F32(), p);
    rest.store(p + kLanes);
  }
};

template <>
struct RowBlock<0> {
  HWY_INLINE void zero() {}
  HWY_INLINE void load(const float*) {}
  HWY_INLINE void load_unaligned(const float*) {}
  HWY_INLINE void scale(Floats) {}
  HWY_INLINE void multiply_add(Floats, const RowBlock&) {}
  HWY_INLINE void store(float*) const {}
};

enum class Start { zero, add, scale };  // initial accumulators: 0, c, or c times a factor per row

template <int M, int N>
struct Block {
  RowBlock<N> row;
  Block<M - 1, N> rest;

  template <Start kStart>
  HWY_INLINE void start(const float* HWY_RESTRICT c, std::int64_t ldc, const float* HWY_RESTRICT factor) {
    if constexpr (kStart == Start::zero) {
      row.zero();
    } else {
      row.load(c);
      if constexpr (kStart == Start::scale) row.scale(hn::Set(F32(), *factor));
    }
    rest.template start<kStart>(c + ldc, ldc, kStart == Start::scale ? factor + 1 : nullptr);
  }
  HWY_INLINE void update(const float* HWY_RESTRICT a, std::int64_t step, const RowBlock<N>& b) {
    row.multiply_add(hn::Set(F32(), *a), b);
    rest.update(a + step, step, b);
  }
  HWY_INLINE void store(float* HWY_RESTRICT c, std::int64_t ldc) const {
    row.store(c);
    rest.store(c + ldc, ldc);
  }
};

template <int N>
struct Block<0, N> {
  template <Start kStart>
  HWY_INLINE void start(const float*, std::int64_t, const float*) {}
  HWY_INLINE void update(const float*, std::int64_t, const RowBlock<N>&) {}
  HWY_INLINE void store(float*, std::int64_t) const {}
};

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PLIMSOLL_DEVICE_CPU_REGISTER_BLOCK_INL_H_
