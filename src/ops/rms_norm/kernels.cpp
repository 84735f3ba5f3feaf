#include "ops/rms_norm/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "device/cpu/tiles.h"
#include "tensor/half.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rms_norm/kernels.cpp"
#include "hwy/foreach_target.h"

#include "device/cpu/narrow-inl.h"
#include "hwy/highway.h"

#ifndef PLIMSOLL_OPS_RMS_NORM_KERNELS_ONCE_
#define PLIMSOLL_OPS_RMS_NORM_KERNELS_ONCE_
namespace plimsoll::cpu::rms_norm {

inline constexpr std::int64_t kRows = 64;         // rows of the smallest tile
inline constexpr std::int64_t kMostTiles = 1024;  // most tiles, each with a partial sum of dweight
inline constexpr std::int64_t kColumnTile = 256;  // columns of one task when partial sums are combined

struct Forward {
  std::int64_t rows, width;
  float epsilon;
  ConstElements x;
  const float* weight;
  Elements y;
  float* rstd;
};

struct Backward {
  std::int64_t rows, width;
  ConstElements dy, x;
  const float *rstd, *weight;
  DType output;
  RmsNormGradients made;
  float* partials;  // [tiles, padded width]
};

inline std::int64_t padded(std::int64_t width) { return round_up(width, 16); }
inline std::int64_t tile_rows(std::int64_t rows) { return kRows * std::max<std::int64_t>(1, ceil_div(rows, kRows * kMostTiles)); }
inline std::int64_t tiles(std::int64_t rows) { return ceil_div(rows, tile_rows(rows)); }

}  // namespace plimsoll::cpu::rms_norm
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

HWY_INLINE Floats rounded_to(float, Floats v) { return v; }
HWY_INLINE Floats rounded_to(std::uint16_t, Floats v) {
  const auto bits = hn::BitCast(U32(), v), odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(U32(), 1));
  const auto near = hn::Add(bits, hn::Add(odd, hn::Set(U32(), 0x7fff)));
  const Floats result = hn::BitCast(F32(), hn::And(near, hn::Set(U32(), 0xffff0000)));
  return hn::IfThenElse(hn::IsNaN(v), v, result);
}
HWY_INLINE Floats rounded_to(F16, Floats v) {
  alignas(64) F16 lanes[kLanes];
  store(v, lanes);
  return load(lanes);
}

template <class T>
HWY_INLINE float sum_of_squares(std::int64_t width, const T* HWY_RESTRICT x) {
  Floats even = hn::Zero(F32()), odd = even;
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= width; i += 2 * kLanes) {
    const Floats a = load(x + i), b = load(x + i + kLanes);
    even = hn::MulAdd(a, a, even);
    odd = hn::MulAdd(b, b, odd);
  }
  for (; i < width; i += kLanes) {
    const Floats a = load_part(x + i, std::min<std::int64_t>(kLanes, width - i));
    even = hn::MulAdd(a, a, even);
  }
  return hn::GetLane(hn::SumOfLanes(F32(), hn::Add(even, odd)));
}

template <class X, class Y>
HWY_INLINE void forward_rows_of(const rms_norm::Forward& n, std::int64_t begin, std::int64_t end) {
  const float inverse = 1.0f / static_cast<float>(n.width);
  for (std::int64_t r = begin; r < end; ++r) {
    const X* x = n.x.as<X>() + r * n.width;
    Y* y = n.y.as<Y>() + r * n.width;
    const float rstd = 1.0f / std::sqrt(sum_of_squares(n.width, x) * inverse + n.epsilon);
    const Floats factor = hn::Set(F32(), rstd);
    for_vectors(n.width, [&](std::int64_t i, auto vector) HWY_ATTR {
      const Floats hat = rounded_to(Y{}, hn::Mul(load_at(x + i, vector), factor));
      store_at(hn::Mul(hat, load_at(n.weight + i, vector)), y + i, vector);
    });
    n.rstd[r] = rstd;
  }
}

void forward_rows(const rms_norm::Forward& n, std::int64_t begin, std::int64_t end) {
  with_type(n.x.type, [&]<class X>(X)
                          HWY_ATTR { with_type(n.y.type, [&]<class Y>(Y) HWY_ATTR { forward_rows_of<X, Y>(n, begin, end); }); });
}

// Adds the row to the partial sum of its tile. If dx is made, returns the mean over the row of dy * weight * x rstd.
template <bool kX, bool kWeight, class Y, class D, class X>
HWY_INLINE float reduce_row(const rms_norm::Backward& n, const D* HWY_RESTRICT dy, const X* HWY_RESTRICT x, float rstd,
                            float* HWY_RESTRICT dweight) {
  const Floats factor = hn::Set(F32(), rstd);
  Floats projection = hn::Zero(F32());
  for_vectors(n.width, [&](std::int64_t i, auto vector) HWY_ATTR {
    fetch_ahead(dy + i);
    fetch_ahead(x + i);
    const Floats d = load_at(dy + i, vector), hat = hn::Mul(load_at(x + i, vector), factor);
    if constexpr (kX) projection = hn::MulAdd(hn::Mul(d, load_at(n.weight + i, vector)), hat, projection);
    // The partial sum is padded: past its end d is zero.
    if constexpr (kWeight) hn::Store(hn::MulAdd(d, rounded_to(Y{}, hat), hn::Load(F32(), dweight + i)), F32(), dweight + i);
  });
  return hn::GetLane(hn::SumOfLanes(F32(), projection)) / static_cast<float>(n.width);
}

// dx = rstd * (dy * weight - x rstd * mean).
template <class T>
HWY_INLINE void gradient_row(const rms_norm::Backward& n, const T* dy, const T* x, float rstd, float mean, T* dx) {
  const Floats factor = hn::Set(F32(), rstd), projection = hn::Set(F32(), mean);
  for_vectors(n.width, [&](std::int64_t i, auto vector) HWY_ATTR {
    const Floats hat = hn::Mul(load_at(x + i, vector), factor);
    const Floats scaled = hn::Mul(load_at(dy + i, vector), load_at(n.weight + i, vector));
    store_at(hn::Mul(hn::NegMulAdd(hat, projection, scaled), factor), dx + i, vector);
  });
}

template <bool kX, bool kWeight, class Y, class D, class X>
HWY_INLINE void backward_tile_of(const rms_norm::Backward& n, std::int64_t tile) {
  const std::int64_t stride = rms_norm::padded(n.width), rows = rms_norm::tile_rows(n.rows);
  float* const dweight = kWeight ? n.partials + tile * stride : nullptr;
  if constexpr (kWeight) std::memset(dweight, 0, static_cast<std::size_t>(stride) * 4);
  for (std::int64_t r = tile * rows; r < std::min(n.rows, (tile + 1) * rows); ++r) {
    const D* dy = n.dy.as<D>() + r * n.width;
    const X* x = n.x.as<X>() + r * n.width;
    const float mean = reduce_row<kX, kWeight, Y>(n, dy, x, n.rstd[r], dweight);
    if constexpr (kX) gradient_row(n, dy, x, n.rstd[r], mean, reinterpret_cast<X*>(n.made.dx) + r * n.width);
  }
}

void backward_tile(const rms_norm::Backward& n, std::int64_t tile) {
  with_type(n.x.type, [&]<class X>(X) HWY_ATTR {
    if (n.made.dweight == nullptr) return backward_tile_of<true, false, float, X, X>(n, tile);
    with_type(n.output, [&]<class Y>(Y) HWY_ATTR {
      if (n.made.dx != nullptr) return backward_tile_of<true, true, Y, X, X>(n, tile);
      with_type(n.dy.type, [&]<class D>(D) HWY_ATTR { backward_tile_of<false, true, Y, D, X>(n, tile); });
    });
  });
}

// dweight [begin, end) = or += the partials of every tile in ascending order.
void combine_columns(const rms_norm::Backward& n, std::int64_t begin, std::int64_t end) {
  const std::int64_t stride = rms_norm::padded(n.width), tiles = rms_norm::tiles(n.rows);
  alignas(64) float sum[rms_norm::kColumnTile] = {};
  for (std::int64_t t = 0; t < tiles; ++t) {
    const float* partial = n.partials + t * stride + begin;
    for (std::int64_t i = 0; i < end - begin; i += kLanes) {
      hn::Store(hn::Add(hn::Load(F32(), sum + i), hn::Load(F32(), partial + i)), F32(), sum + i);
    }
  }
  for (std::int64_t i = begin; i < end; ++i) {
    n.made.dweight[i] = n.made.accumulate ? n.made.dweight[i] + sum[i - begin] : sum[i - begin];
  }
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {
namespace {

HWY_EXPORT(forward_rows);
HWY_EXPORT(backward_tile);
HWY_EXPORT(combine_columns);

// Short rows, and tiles of them, share a task.
std::int64_t tasks_of(std::int64_t elements) {
  return std::max<std::int64_t>(1, kElementTile / std::max<std::int64_t>(1, elements));
}

}  // namespace

void rms_norm_forward(std::int64_t rows, std::int64_t width, float epsilon, ConstElements x, const float* weight, Elements y,
                      float* rstd) {
  const rms_norm::Forward n{rows, width, epsilon, x, weight, y, rstd};
  const auto forward = HWY_DYNAMIC_DISPATCH(forward_rows);
  for_tiles(
      rows, [&](std::int64_t begin, std::int64_t end) { forward(n, begin, end); }, tasks_of(width));
}

Bytes rms_norm_backward_scratch(std::int64_t rows, std::int64_t width) {
  return Bytes{rms_norm::tiles(rows) * rms_norm::padded(width) * 4};
}

void rms_norm_backward(std::int64_t rows, std::int64_t width, ConstElements dy, ConstElements x, const float* rstd,
                       const float* weight, DType output, const RmsNormGradients& made, std::byte* scratch) {
  const rms_norm::Backward n{rows, width, dy, x, rstd, weight, output, made, reinterpret_cast<float*>(scratch)};
  ensure(made.dx != nullptr || made.dweight != nullptr, "rms_norm", "no gradient is made");
  ensure(made.dx == nullptr || dy.type == x.type, "rms_norm", "dx is of another type than dy");
  for_rows(rms_norm::tiles(rows), rms_norm::tile_rows(rows) * width, [&](std::int64_t tile) {
    HWY_DYNAMIC_DISPATCH(backward_tile)(n, tile);
  });
  if (made.dweight == nullptr) return;
  const auto combine = HWY_DYNAMIC_DISPATCH(combine_columns);
  for_tiles(
      width, [&](std::int64_t begin, std::int64_t end) { combine(n, begin, end); }, rms_norm::kColumnTile);
}

}  // namespace plimsoll::cpu
#endif  // HWY_ONCE
