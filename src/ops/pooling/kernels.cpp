#include "ops/pooling/kernels.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/pooling/kernels.cpp"
#include <hwy/foreach_target.h>

#include "device/cpu/map-inl.h"
#include "hwy/highway.h"

#ifndef PLIMSOLL_OPS_POOLING_KERNELS_ONCE_
#define PLIMSOLL_OPS_POOLING_KERNELS_ONCE_
namespace plimsoll::cpu {
constexpr std::int64_t kMeanStrip = 64;  // channels of a task of a mean
}
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

using U8 = hn::Rebind<std::uint8_t, F32>;

HWY_INLINE void store_places(hn::Vec<I32> places, std::uint8_t* to, Whole) { hn::StoreU(hn::DemoteTo(U8(), places), U8(), to); }
HWY_INLINE void store_places(hn::Vec<I32> places, std::uint8_t* to, Rest rest) {
  alignas(64) std::uint8_t lanes[kLanes];
  hn::StoreU(hn::DemoteTo(U8(), places), U8(), lanes);
  std::memcpy(to, lanes, static_cast<std::size_t>(rest.count));
}

HWY_INLINE hn::Vec<I32> load_places(const std::uint8_t* from, Whole) { return hn::PromoteTo(I32(), hn::LoadU(U8(), from)); }
HWY_INLINE hn::Vec<I32> load_places(const std::uint8_t* from, Rest rest) {
  alignas(64) std::uint8_t lanes[kLanes] = {};
  std::memcpy(lanes, from, static_cast<std::size_t>(rest.count));
  return hn::PromoteTo(I32(), hn::LoadU(U8(), lanes));
}

template <class T>
HWY_INLINE void max_pool_of(const PoolShape& shape, const T* x, T* y, std::uint8_t* places) {
  const ops::WindowAxes axes = shape.axes();
  const std::int64_t down = axes.rows.outputs(), across = axes.columns.outputs(), channels = shape.channels;
  for_rows(shape.batch * down, across * channels * shape.kernel_h, [&](std::int64_t row) HWY_ATTR {
    const std::int64_t image = row / down, i = row % down;
    const ops::IndexRange rows = axes.rows.inside(i);
    for (std::int64_t j = 0; j < across; ++j) {
      const ops::IndexRange columns = axes.columns.inside(j);
      const T* const window = x + ((image * shape.height + axes.rows.first(i)) * shape.width + axes.columns.first(j)) * channels;
      const std::int64_t to = (row * across + j) * channels;
      for_vectors(channels, [&](std::int64_t c, auto vector) HWY_ATTR {
        Floats best = load_at(window + (rows.begin * shape.width + columns.begin) * channels + c, vector);
        auto best_place = hn::Set(I32(), static_cast<std::int32_t>(rows.begin * shape.kernel_w + columns.begin));
        for (std::int64_t ky = rows.begin; ky < rows.end; ++ky) {
          for (std::int64_t kx = columns.begin; kx < columns.end; ++kx) {
            const Floats v = load_at(window + (ky * shape.width + kx) * channels + c, vector);
            const auto better = hn::Or(hn::Gt(v, best), hn::IsNaN(v));
            const auto place = hn::Set(I32(), static_cast<std::int32_t>(ky * shape.kernel_w + kx));
            best = hn::IfThenElse(better, v, best);
            best_place = hn::IfThenElse(hn::RebindMask(I32(), better), place, best_place);
          }
        }
        store_at(best, y + to + c, vector);
        store_places(best_place, places + to + c, vector);
      });
    }
  });
}

void max_pool(const PoolShape& shape, ConstElements x, Elements y, std::uint8_t* places) {
  with_type(x.type, [&]<class T>(T) HWY_ATTR { max_pool_of(shape, x.as<T>(), y.as<T>(), places); });
}

// The windows that read a pixel of an axis.
HWY_INLINE ops::IndexRange windows_of(const ops::WindowAxis& axis, std::int64_t pixel) {
  const std::int64_t at = pixel + axis.before;
  const std::int64_t begin = at < axis.kernel ? 0 : (at - axis.kernel) / axis.stride + 1;
  return {begin, std::min(axis.outputs(), at / axis.stride + 1)};
}

template <class T>
HWY_INLINE void max_pool_backward_of(const PoolShape& shape, const T* dy, const std::uint8_t* places, T* dx) {
  const ops::WindowAxes axes = shape.axes();
  const std::int64_t down = axes.rows.outputs(), across = axes.columns.outputs(), channels = shape.channels;
  for_rows(shape.batch * shape.height, shape.width * channels, [&](std::int64_t row) HWY_ATTR {
    const std::int64_t image = row / shape.height, y = row % shape.height;
    const ops::IndexRange rows = windows_of(axes.rows, y);
    for (std::int64_t x = 0; x < shape.width; ++x) {
      const ops::IndexRange columns = windows_of(axes.columns, x);
      T* const to = dx + (row * shape.width + x) * channels;
      for_vectors(channels, [&](std::int64_t c, auto vector) HWY_ATTR {
        Floats sum = hn::Zero(F32());
        for (std::int64_t i = rows.begin; i < rows.end; ++i) {
          for (std::int64_t j = columns.begin; j < columns.end; ++j) {
            const std::int64_t from = ((image * down + i) * across + j) * channels + c;
            const std::int64_t place = (y - axes.rows.first(i)) * shape.kernel_w + x - axes.columns.first(j);
            const auto here = hn::Eq(load_places(places + from, vector), hn::Set(I32(), static_cast<std::int32_t>(place)));
            sum = hn::Add(sum, hn::IfThenElseZero(hn::RebindMask(F32(), here), load_at(dy + from, vector)));
          }
        }
        store_at(sum, to + c, vector);
      });
    }
  });
}

void max_pool_backward(const PoolShape& shape, ConstElements dy, const std::uint8_t* places, Elements dx) {
  with_type(dy.type, [&]<class T>(T) HWY_ATTR { max_pool_backward_of(shape, dy.as<T>(), places, dx.as<T>()); });
}

template <class From, class To>
HWY_INLINE void mean_pool_of(std::int64_t batch, std::int64_t positions, std::int64_t channels, const From* x, To* y) {
  const Floats divisor = set(static_cast<float>(positions));
  const std::int64_t strips = ceil_div(channels, kMeanStrip);
  const std::int64_t strips_of_task = std::max<std::int64_t>(1, kElementTile / (positions * kMeanStrip));
  for_tiles(
      batch * strips,
      [=](std::int64_t first, std::int64_t last) HWY_ATTR {
        alignas(64) float sums[kMeanStrip];
        for (std::int64_t strip = first; strip < last; ++strip) {
          const std::int64_t channel = strip % strips * kMeanStrip, count = std::min(kMeanStrip, channels - channel);
          const From* from = x + strip / strips * positions * channels + channel;
          std::fill(sums, sums + kMeanStrip, 0.0F);
          for (std::int64_t position = 0; position < positions; ++position, from += channels) {
            map_range(
                0, count, [](Floats sum, Floats v) HWY_ATTR { return hn::Add(sum, v); }, sums, sums, from);
          }
          map_range(
              0, count, [=](Floats sum) HWY_ATTR { return hn::Div(sum, divisor); }, y + strip / strips * channels + channel,
              sums);
        }
      },
      strips_of_task);
}

void mean_pool(std::int64_t batch, std::int64_t positions, std::int64_t channels, ConstElements x, Elements y) {
  with_type(x.type, [&]<class From>(From) HWY_ATTR {
    with_type(y.type, [&]<class To>(To) HWY_ATTR { mean_pool_of(batch, positions, channels, x.as<From>(), y.as<To>()); });
  });
}

template <class From, class To>
HWY_INLINE void mean_pool_backward_of(std::int64_t batch, std::int64_t positions, std::int64_t channels, const From* dy, To* dx) {
  const Floats divisor = set(static_cast<float>(positions));
  for_rows(batch * positions, channels, [=](std::int64_t row) HWY_ATTR {
    map_range(
        0, channels, [=](Floats v) HWY_ATTR { return hn::Div(v, divisor); }, dx + row * channels,
        dy + row / positions * channels);
  });
}

void mean_pool_backward(std::int64_t batch, std::int64_t positions, std::int64_t channels, ConstElements dy, Elements dx) {
  with_type(dy.type, [&]<class From>(From) HWY_ATTR {
    with_type(dx.type,
              [&]<class To>(To) HWY_ATTR { mean_pool_backward_of(batch, positions, channels, dy.as<From>(), dx.as<To>()); });
  });
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {

HWY_EXPORT(max_pool);
HWY_EXPORT(max_pool_backward);
HWY_EXPORT(mean_pool);
HWY_EXPORT(mean_pool_backward);

void max_pool(const PoolShape& shape, ConstElements x, Elements y, std::uint8_t* places) {
  HWY_DYNAMIC_DISPATCH(max_pool)(shape, x, y, places);
}
void max_pool_backward(const PoolShape& shape, ConstElements dy, const std::uint8_t* places, Elements dx) {
  HWY_DYNAMIC_DISPATCH(max_pool_backward)(shape, dy, places, dx);
}
void mean_pool(std::int64_t batch, std::int64_t positions, std::int64_t channels, ConstElements x, Elements y) {
  HWY_DYNAMIC_DISPATCH(mean_pool)(batch, positions, channels, x, y);
}
void mean_pool_backward(std::int64_t batch, std::int64_t positions, std::int64_t channels, ConstElements dy, Elements dx) {
  HWY_DYNAMIC_DISPATCH(mean_pool_backward)(batch, positions, channels, dy, dx);
}

}  // namespace plimsoll::cpu
#endif
