#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/ceil_div.h"
#include "device/cpu/cast.h"
#include "device/cpu/parallel.h"
#include "device/cpu/tiles.h"
#include "ops/convolution/kernels_gathered.h"
#include "ops/convolution/kernels_weight.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/convolution/kernels_depthwise.cpp"
#include <hwy/foreach_target.h>

#include "device/cpu/map-inl.h"
#include "hwy/highway.h"

#ifndef PLIMSOLL_CONVOLUTION_DEPTHWISE_ONCE
#define PLIMSOLL_CONVOLUTION_DEPTHWISE_ONCE
namespace plimsoll::cpu::depthwise {

constexpr std::int64_t kMostParts = 16;  // of the pixels, with sums of their own
constexpr std::int64_t kTile = 4;        // neighbouring pixels that share loads

struct Call {
  const Gathered& product;
  const Phase& phase;
  ConstElements source;
  const float* weight;  // [place][channel]
  const float* bias;
  Elements target;
};

struct WeightCall {
  const ConvolutionShape& shape;
  ConstElements x, dy;
  std::int64_t rows;  // of dy, whose sums are one part
  float* sums;        // [part][place][channel]
};

}  // namespace plimsoll::cpu::depthwise
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

using depthwise::Call;
using depthwise::kTile;
using depthwise::WeightCall;

template <int N>
using Number = std::integral_constant<int, N>;

// Calls f(Number) for the steps 1 and 2, else for 0: any step.
template <class F>
HWY_INLINE void with_step(std::int64_t step, F f) {
#if HWY_TARGET <= HWY_AVX2  // others are rare, and every kernel takes memory
  if (step == 1) return f(Number<1>());
  if (step == 2) return f(Number<2>());
#else
  static_cast<void>(step);
#endif
  f(Number<0>());
}

// Pixels of a row of the source around a tile: `first` is the column of place 0 of the tile's first pixel.
template <class T>
struct RowPixels {
  const T* at;  // of that column
  std::int64_t first, width, channels, step;

  // kWhole: no pixel is asked for that is padding.
  template <bool kWhole>
  HWY_INLINE bool has(std::int64_t p) const {
    return kWhole || static_cast<std::uint64_t>(first + p) < static_cast<std::uint64_t>(width);
  }
};

// Calls f(pixel, k, place) for the pixels k step + place of a row, with k < K and place < W. A pixel that several use is loaded
// once. All indices are constants, so that sums stay in registers.
template <int K, int W, int kStep, bool kWhole, class T, class Vector, class F>
HWY_INLINE void for_pixels(const RowPixels<T>& row, std::int64_t c, Vector vector, F f) {
  if constexpr (kStep == 0) {
    static_assert(W == 1);
    [&]<int... k>(std::integer_sequence<int, k...>) HWY_ATTR {
      const auto at = [&](auto pixel) HWY_ATTR {
        const std::int64_t p = pixel.value * row.step;
        if (row.template has<kWhole>(p)) f(load_at(row.at + p * row.channels + c, vector), pixel, Number<0>());
      };
      (at(Number<k>()), ...);
    }
    (std::make_integer_sequence<int, K>());
  } else {
    const auto at = [&](auto number) HWY_ATTR {
      constexpr int p = number.value;
      if (!row.template has<kWhole>(p)) return;
      const Floats pixel = load_at(row.at + p * row.channels + c, vector);
      const auto use = [&](auto k) HWY_ATTR {
        constexpr int place = p - k.value * kStep;
        if constexpr (place >= 0 && place < W) f(pixel, k, Number<place>());
      };
      [&]<int... k>(std::integer_sequence<int, k...>) HWY_ATTR { (use(Number<k>()), ...); }
      (std::make_integer_sequence<int, K>());
    };
    [&]<int... p>(std::integer_sequence<int, p...>) HWY_ATTR { (at(Number<p>()), ...); }
    (std::make_integer_sequence<int, (K - 1) * kStep + W>());
  }
}

// Calls f(Number<W>) with the length of a run; runs are single if the step is none of the known ones.
template <int kStep, class F>
HWY_INLINE void with_run(std::int64_t run, F f) {
  if constexpr (kStep > 0) {
    if (run == 3) return f(Number<3>());
    if (run == 2) return f(Number<2>());
  }
  f(Number<1>());
}

// Sums of K neighbouring pixels of a phase.
template <int K, int kStep, bool kWhole, class T, class Out>
HWY_INLINE void sum_tile(const Call& call, std::int64_t image, std::int64_t row, std::int64_t column, Out* target,
                         std::int64_t target_step) {
  const ImageShape& from = call.product.source;
  const std::int64_t channels = from.channels, width = from.width, step = call.product.move_w;
  const std::uint64_t height = static_cast<std::uint64_t>(from.height);
  const T* const source = call.source.as<T>() + ((image * from.height + row) * width + column) * channels;
  const float *const weight = call.weight, *const bias = call.bias;
  const TapRun *const first = call.phase.runs.data(), *const last = first + call.phase.runs.size();
  for_vectors(channels, [&](std::int64_t c, auto vector) HWY_ATTR {
    Floats sums[K];
    for (int k = 0; k < K; ++k) sums[k] = bias == nullptr ? hn::Zero(F32()) : load_at(bias + c, vector);
    for (const TapRun* run = first; run != last; ++run) {
      if (static_cast<std::uint64_t>(row + run->row) >= height) continue;
      for (std::int64_t tap = 0; tap < run->count;) {
        const RowPixels<T> pixels{source + run->source + tap * channels, column + run->column + tap, width, channels, step};
        with_run<kStep>(run->count, [&](auto taps) HWY_ATTR {
          Floats weights[taps.value];
          for (int i = 0; i < taps.value; ++i) weights[i] = load_at(weight + run->weight[tap + i] + c, vector);
          for_pixels<K, taps.value, kStep, kWhole>(pixels, c, vector, [&](Floats pixel, auto k, auto place) HWY_ATTR {
            sums[k.value] = hn::MulAdd(pixel, weights[place.value], sums[k.value]);
          });
          tap += taps.value;
        });
      }
    }
    for (int k = 0; k < K; ++k) store_at(sums[k], target + k * target_step + c, vector);
  });
}

// The columns of a phase whose taps all lie inside the image.
HWY_INLINE ops::IndexRange whole_columns(const Call& call) {
  std::int64_t left = 0, right = 0;
  for (const Tap& tap : call.phase.taps) left = std::min(left, tap.column), right = std::max(right, tap.column);
  const std::int64_t move = call.product.move_w, last = call.product.source.width - 1 - right;
  const std::int64_t begin = std::min(call.phase.columns, ceil_div(-left, move));
  const std::int64_t end = last < 0 ? 0 : std::min(call.phase.columns, last / move + 1);
  return {begin, std::max(begin, end)};
}

template <int kStep, class T, class Out>
HWY_INLINE void sum_row(const Call& call, const ops::IndexRange& whole, std::int64_t image, std::int64_t i) {
  const Gathered& product = call.product;
  const ImageShape& to = product.target;
  const std::int64_t target_step = product.step_w * to.channels, columns = call.phase.columns;
  const std::int64_t y = call.phase.first_row + i * product.step_h;
  Out* const target = call.target.as<Out>() + ((image * to.height + y) * to.width + call.phase.first_column) * to.channels;
  const auto sum = [&](std::int64_t j, auto pixels, auto is_whole) HWY_ATTR {
    sum_tile<pixels.value, kStep, is_whole.value, T>(call, image, i * product.move_h, j * product.move_w,
                                                     target + j * target_step, target_step);
  };
  std::int64_t j = 0;
  for (; j + kTile <= columns; j += kTile) {
    if (j >= whole.begin && j + kTile <= whole.end) {
      sum(j, Number<kTile>(), std::true_type());
    } else {
      sum(j, Number<kTile>(), std::false_type());
    }
  }
  for (; j < columns; ++j) sum(j, Number<1>(), std::false_type());
}

void sum_rows_of_phase(const Call& call) {
  const std::int64_t all = call.product.shape.batch * call.phase.rows;
  const ops::IndexRange whole = whole_columns(call);
  with_type(call.source.type, [&]<class T>(T) HWY_ATTR {
    const auto body = [&](auto out) HWY_ATTR {
      with_step(call.product.move_w, [&](auto step) HWY_ATTR {
        for_rows(all, call.phase.columns * call.product.target.channels, [&](std::int64_t row) HWY_ATTR {
          sum_row<step.value, T, decltype(out)>(call, whole, row / call.phase.rows, row % call.phase.rows);
        });
      });
    };
    if (call.target.type == DType::f32) return body(0.0F);
    body(T{});
  });
}

// Adds the products of K neighbouring pixels of dy for all places of the kernel.
template <int K, int kStep, bool kWhole, class T>
HWY_INLINE void add_weight_tile(const WeightCall& call, const ops::WindowAxes& axes, std::int64_t image, std::int64_t i,
                                std::int64_t j, float* sums) {
  const ConvolutionShape& shape = call.shape;
  const std::int64_t channels = shape.channels, column = axes.columns.first(j), width = shape.width;
  const std::int64_t kernel_w = shape.kernel_w, step = axes.columns.stride;
  const T* const dy = call.dy.as<T>() + ((image * axes.rows.outputs() + i) * axes.columns.outputs() + j) * channels;
  const ops::IndexRange rows = axes.rows.inside(i);
  const T* const source = call.x.as<T>() + ((image * shape.height + axes.rows.first(i)) * width + column) * channels;
  for_vectors(channels, [&](std::int64_t c, auto vector) HWY_ATTR {
    Floats gradients[K];
    for (std::int64_t k = 0; k < K; ++k) gradients[k] = load_at(dy + k * channels + c, vector);
    for (std::int64_t ky = rows.begin; ky < rows.end; ++ky) {
      const T* const row = source + ky * width * channels;
      float* const of_row = sums + ky * kernel_w * channels + c;
      for (std::int64_t kx = 0; kx < kernel_w;) {
        const RowPixels<T> pixels{row + kx * channels, column + kx, width, channels, step};
        float* const of_run = of_row + kx * channels;
        with_run<kStep>(std::min(TapRun::kMost, kernel_w - kx), [&](auto places) HWY_ATTR {
          Floats of_place[places.value];
          for (int place = 0; place < places.value; ++place) of_place[place] = load_at(of_run + place * channels, vector);
          for_pixels<K, places.value, kStep, kWhole>(pixels, c, vector, [&](Floats pixel, auto k, auto place) HWY_ATTR {
            of_place[place.value] = hn::MulAdd(pixel, gradients[k.value], of_place[place.value]);
          });
          for (int place = 0; place < places.value; ++place) store_at(of_place[place], of_run + place * channels, vector);
          kx += places.value;
        });
      }
    }
  });
}

template <int kStep, class T>
HWY_INLINE void add_weight_row(const WeightCall& call, std::int64_t image, std::int64_t i, float* sums) {
  const ops::WindowAxes axes = call.shape.axes();
  const std::int64_t columns = axes.columns.outputs(), stride = axes.columns.stride;
  std::int64_t j = 0;
  for (; j + kTile <= columns; j += kTile) {
    const std::int64_t first = axes.columns.first(j), end = first + (kTile - 1) * stride + axes.columns.kernel;
    if (first >= 0 && end <= axes.columns.size) {
      add_weight_tile<kTile, kStep, true, T>(call, axes, image, i, j, sums);
    } else {
      add_weight_tile<kTile, kStep, false, T>(call, axes, image, i, j, sums);
    }
  }
  for (; j < columns; ++j) add_weight_tile<1, kStep, false, T>(call, axes, image, i, j, sums);
}

void add_weight_part(const WeightCall& call, std::int64_t part) {
  const ConvolutionShape& shape = call.shape;
  const std::int64_t height = shape.out_height(), all = shape.batch * height, n = shape.places() * shape.channels;
  float* const sums = call.sums + part * n;
  std::fill_n(sums, n, 0.0F);
  with_type(call.x.type, [&]<class T>(T) HWY_ATTR {
    with_step(shape.window.stride_w, [&](auto step) HWY_ATTR {
      for (std::int64_t row = part * call.rows; row < std::min(all, (part + 1) * call.rows); ++row) {
        add_weight_row<step.value, T>(call, row / height, row % height, sums);
      }
    });
  });
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {
namespace {

HWY_EXPORT(sum_rows_of_phase);
HWY_EXPORT(add_weight_part);

std::int64_t weights(const ConvolutionShape& shape) { return shape.places() * shape.channels; }

// Rows of dy of a part.
std::int64_t part_rows(const ConvolutionShape& shape) {
  return ceil_div(shape.batch * shape.out_height(), depthwise::kMostParts);
}
std::int64_t weight_parts(const ConvolutionShape& shape) { return ceil_div(shape.batch * shape.out_height(), part_rows(shape)); }

}  // namespace

Bytes depthwise_scratch(const Gathered& product) {
  return product.shape.operands == DType::f32 ? Bytes{} : Bytes{4 * weights(product.shape)};
}

void run_depthwise(const Gathered& product, ConstElements source, ConstElements weight, const float* bias, Elements target,
                   std::byte* scratch) {
  const float* wide = weight.as<float>();
  if (weight.type != DType::f32) {
    cast(weights(product.shape), weight, reinterpret_cast<float*>(scratch));
    wide = reinterpret_cast<const float*>(scratch);
  }
  for (const Phase& phase : product.phases) HWY_DYNAMIC_DISPATCH(sum_rows_of_phase)({product, phase, source, wide, bias, target});
}

Bytes depthwise_weight_scratch(const ConvolutionShape& shape) { return Bytes{4 * weight_parts(shape) * weights(shape)}; }

void depthwise_weight_gradient(const ConvolutionShape& shape, ConstElements x, ConstElements dy, bool overwrite, float* dw,
                               std::byte* scratch) {
  auto* const sums = reinterpret_cast<float*>(scratch);
  const depthwise::WeightCall call{shape, x, dy, part_rows(shape), sums};
  const auto run = HWY_DYNAMIC_DISPATCH(add_weight_part);
  parallel_for(weight_parts(shape), [&](std::int64_t part) { run(call, part); });
  add_parts(weights(shape), weight_parts(shape), sums, overwrite, dw);
}

}  // namespace plimsoll::cpu
#endif
