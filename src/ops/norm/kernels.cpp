#include "ops/norm/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "device/cpu/parallel.h"
#include "tensor/half.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/norm/kernels.cpp"
#include "hwy/foreach_target.h"

#include "device/cpu/narrow-inl.h"
#include "hwy/highway.h"

#ifndef PLIMSOLL_OPS_NORM_KERNELS_ONCE_
#define PLIMSOLL_OPS_NORM_KERNELS_ONCE_
namespace plimsoll::cpu::norm {

inline constexpr std::int64_t kRowTile = 64;      // rows of one partial sum of dgamma and dbeta
inline constexpr std::int64_t kForwardRows = 16;  // rows of one task in forward
inline constexpr std::int64_t kColumnTile = 256;  // columns of one task when partial sums are combined

struct Forward {
  std::int64_t rows, width;
  float epsilon;
  const float *x, *gamma, *beta;
  Elements y;
  float *mean, *rstd;
};

struct Backward {
  std::int64_t rows, width;
  const float *dy, *x, *mean, *rstd, *gamma;
  float *dx, *dgamma, *dbeta;  // null: not made
  bool accumulate;
  float* partials;  // [tiles, sums, padded width]

  std::int64_t sums() const { return std::int64_t{dgamma != nullptr} + std::int64_t{dbeta != nullptr}; }
};

inline std::int64_t padded(std::int64_t width) { return round_up(width, 16); }
inline std::int64_t tiles(std::int64_t rows) { return ceil_div(rows, kRowTile); }

}  // namespace plimsoll::cpu::norm
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

HWY_INLINE float total(Floats a, Floats b) { return hn::GetLane(hn::SumOfLanes(F32(), hn::Add(a, b))); }

HWY_INLINE float row_sum(std::int64_t width, const float* HWY_RESTRICT x) {
  Floats even = hn::Zero(F32()), odd = even;
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= width; i += 2 * kLanes) {
    even = hn::Add(even, load(x + i));
    odd = hn::Add(odd, load(x + i + kLanes));
  }
  float sum = total(even, odd);
  for (; i < width; ++i) sum += x[i];
  return sum;
}

HWY_INLINE float row_squares(std::int64_t width, const float* HWY_RESTRICT x, float mean) {
  const Floats center = hn::Set(F32(), mean);
  Floats even = hn::Zero(F32()), odd = even;
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= width; i += 2 * kLanes) {
    const Floats a = hn::Sub(load(x + i), center), b = hn::Sub(load(x + i + kLanes), center);
    even = hn::MulAdd(a, a, even);
    odd = hn::MulAdd(b, b, odd);
  }
  float sum = total(even, odd);
  for (; i < width; ++i) sum += (x[i] - mean) * (x[i] - mean);
  return sum;
}

template <class T>
HWY_INLINE void normalise_row(const norm::Forward& n, const float* x, float mean, float rstd, T* y) {
  const Floats center = hn::Set(F32(), mean), factor = hn::Set(F32(), rstd);
  std::int64_t i = 0;
  for (; i + kLanes <= n.width; i += kLanes) {
    const Floats hat = hn::Mul(hn::Sub(load(x + i), center), factor);
    store(hn::MulAdd(hat, load(n.gamma + i), load(n.beta + i)), y + i);
  }
  for (; i < n.width; ++i) {
    const float result = (x[i] - mean) * rstd * n.gamma[i] + n.beta[i];
    if constexpr (std::is_same_v<T, float>) {
      y[i] = result;
    } else if constexpr (std::is_same_v<T, F16>) {
      y[i] = static_cast<F16>(narrow_f16(result));
    } else {
      y[i] = narrow_bf16(result);
    }
  }
}

void forward_rows(const norm::Forward& n, std::int64_t begin, std::int64_t end) {
  const float inverse = 1.0f / static_cast<float>(n.width);
  for (std::int64_t r = begin; r < end; ++r) {
    const float* x = n.x + r * n.width;
    const float mean = row_sum(n.width, x) * inverse;
    const float rstd = 1.0f / std::sqrt(row_squares(n.width, x, mean) * inverse + n.epsilon);
    with_type(n.y.type, [&]<class T>(T) HWY_ATTR { normalise_row(n, x, mean, rstd, n.y.as<T>() + r * n.width); });
    n.mean[r] = mean;
    n.rstd[r] = rstd;
  }
}

struct RowMeans {
  float gradient, projection;  // means over the row of dy * gamma and of dy * gamma * xhat
};

// Also adds the row to the partial sums of its tile. Without dx the means are not needed and are 0.
template <bool kX, bool kGamma, bool kBeta>
HWY_INLINE RowMeans reduce_row(const norm::Backward& n, const float* HWY_RESTRICT dy, const float* HWY_RESTRICT x, float mean,
                               float rstd, float* HWY_RESTRICT dgamma, float* HWY_RESTRICT dbeta) {
  const Floats center = hn::Set(F32(), mean), factor = hn::Set(F32(), rstd);
  Floats gradient = hn::Zero(F32()), projection = gradient;
  std::int64_t i = 0;
  for (; i + kLanes <= n.width; i += kLanes) {
    fetch_ahead(dy + i);
    fetch_ahead(x + i);
    const Floats d = load(dy + i), hat = hn::Mul(hn::Sub(load(x + i), center), factor);
    if constexpr (kX) {
      const Floats scaled = hn::Mul(d, load(n.gamma + i));
      gradient = hn::Add(gradient, scaled);
      projection = hn::MulAdd(scaled, hat, projection);
    }
    if constexpr (kGamma) hn::Store(hn::MulAdd(d, hat, hn::Load(F32(), dgamma + i)), F32(), dgamma + i);
    if constexpr (kBeta) hn::Store(hn::Add(d, hn::Load(F32(), dbeta + i)), F32(), dbeta + i);
  }
  float gradient_sum = total(gradient, hn::Zero(F32())), projection_sum = total(projection, hn::Zero(F32()));
  for (; i < n.width; ++i) {
    const float hat = (x[i] - mean) * rstd;
    if constexpr (kX) {
      const float scaled = dy[i] * n.gamma[i];
      gradient_sum += scaled;
      projection_sum += scaled * hat;
    }
    if constexpr (kGamma) dgamma[i] += dy[i] * hat;
    if constexpr (kBeta) dbeta[i] += dy[i];
  }
  const float inverse = 1.0f / static_cast<float>(n.width);
  return {gradient_sum * inverse, projection_sum * inverse};
}

// dx = rstd * (dy * gamma - mean(dy * gamma) - xhat * mean(dy * gamma * xhat)).
HWY_INLINE void gradient_row(const norm::Backward& n, std::int64_t row, const RowMeans& means) {
  const std::int64_t offset = row * n.width;
  const float *dy = n.dy + offset, *x = n.x + offset;
  const float mean = n.mean[row], rstd = n.rstd[row];
  float* dx = n.dx + offset;
  const Floats center = hn::Set(F32(), mean), factor = hn::Set(F32(), rstd);
  const Floats gradient = hn::Set(F32(), means.gradient), projection = hn::Set(F32(), means.projection);
  std::int64_t i = 0;
  for (; i + kLanes <= n.width; i += kLanes) {
    const Floats hat = hn::Mul(hn::Sub(load(x + i), center), factor);
    const Floats direct = hn::MulSub(load(dy + i), load(n.gamma + i), gradient);
    const Floats centered = hn::NegMulAdd(hat, projection, direct);
    hn::StoreU(hn::Mul(centered, factor), F32(), dx + i);
  }
  for (; i < n.width; ++i) {
    const float hat = (x[i] - mean) * rstd;
    dx[i] = (dy[i] * n.gamma[i] - means.gradient - hat * means.projection) * rstd;
  }
}

template <bool kX, bool kGamma, bool kBeta>
HWY_INLINE void backward_tile_of(const norm::Backward& n, std::int64_t tile) {
  const std::int64_t stride = norm::padded(n.width), sums = n.sums();
  float* const dgamma = n.partials + sums * tile * stride;
  float* const dbeta = kGamma ? dgamma + stride : dgamma;
  if constexpr (kGamma || kBeta) std::memset(dgamma, 0, static_cast<std::size_t>(sums * stride) * 4);
  for (std::int64_t r = tile * norm::kRowTile; r < std::min(n.rows, (tile + 1) * norm::kRowTile); ++r) {
    const RowMeans means =
        reduce_row<kX, kGamma, kBeta>(n, n.dy + r * n.width, n.x + r * n.width, n.mean[r], n.rstd[r], dgamma, dbeta);
    if constexpr (kX) gradient_row(n, r, means);
  }
}

void backward_tile(const norm::Backward& n, std::int64_t tile) {
  const bool gamma = n.dgamma != nullptr, beta = n.dbeta != nullptr;
  if (n.dx == nullptr) return beta ? backward_tile_of<false, true, true>(n, tile) : backward_tile_of<false, true, false>(n, tile);
  if (gamma && beta) return backward_tile_of<true, true, true>(n, tile);
  if (gamma) return backward_tile_of<true, true, false>(n, tile);
  if (beta) return backward_tile_of<true, false, true>(n, tile);
  backward_tile_of<true, false, false>(n, tile);
}

// sums [begin, end) = or += the partials of every tile in ascending order; `which` is their place within a tile's partials.
HWY_INLINE void combine(const norm::Backward& n, std::int64_t which, std::int64_t begin, std::int64_t end,
                        float* HWY_RESTRICT sums) {
  const std::int64_t stride = norm::padded(n.width), tiles = norm::tiles(n.rows);
  alignas(64) float sum[norm::kColumnTile] = {};
  for (std::int64_t t = 0; t < tiles; ++t) {
    const float* partial = n.partials + (n.sums() * t + which) * stride + begin;
    for (std::int64_t i = 0; i < end - begin; i += kLanes) {
      hn::Store(hn::Add(hn::Load(F32(), sum + i), hn::Load(F32(), partial + i)), F32(), sum + i);
    }
  }
  for (std::int64_t i = begin; i < end; ++i) sums[i] = n.accumulate ? sums[i] + sum[i - begin] : sum[i - begin];
}

void combine_columns(const norm::Backward& n, std::int64_t tile) {
  const std::int64_t begin = tile * norm::kColumnTile, end = std::min(n.width, begin + norm::kColumnTile);
  if (n.dgamma != nullptr) combine(n, 0, begin, end, n.dgamma);
  if (n.dbeta != nullptr) combine(n, n.sums() - 1, begin, end, n.dbeta);
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {
namespace {

HWY_EXPORT(forward_rows);
HWY_EXPORT(backward_tile);
HWY_EXPORT(combine_columns);

}  // namespace

void layer_norm_forward(std::int64_t rows, std::int64_t width, float epsilon, const float* x, const float* gamma,
                        const float* beta, Elements y, float* mean, float* rstd) {
  const norm::Forward n{rows, width, epsilon, x, gamma, beta, y, mean, rstd};
  parallel_for(ceil_div(rows, norm::kForwardRows), [&](std::int64_t task) {
    HWY_DYNAMIC_DISPATCH(forward_rows)(n, task * norm::kForwardRows, std::min(rows, (task + 1) * norm::kForwardRows));
  });
}

Bytes layer_norm_backward_scratch(std::int64_t rows, std::int64_t width, std::int64_t sums) {
  return Bytes{norm::tiles(rows) * sums * norm::padded(width) * 4};
}

void layer_norm_backward(std::int64_t rows, std::int64_t width, const float* dy, const float* x, const float* mean,
                         const float* rstd, const float* gamma, float* dx, float* dgamma, float* dbeta,
                         bool accumulate_dgamma_dbeta, std::byte* scratch) {
  const norm::Backward n{
      rows, width, dy, x, mean, rstd, gamma, dx, dgamma, dbeta, accumulate_dgamma_dbeta, reinterpret_cast<float*>(scratch)};
  ensure(dx != nullptr || dgamma != nullptr, "layer_norm", "no gradient of x or gamma is made");
  parallel_for(norm::tiles(rows), [&](std::int64_t tile) { HWY_DYNAMIC_DISPATCH(backward_tile)(n, tile); });
  if (n.sums() == 0) return;
  parallel_for(ceil_div(width, norm::kColumnTile), [&](std::int64_t tile) { HWY_DYNAMIC_DISPATCH(combine_columns)(n, tile); });
}

}  // namespace plimsoll::cpu
#endif  // HWY_ONCE
