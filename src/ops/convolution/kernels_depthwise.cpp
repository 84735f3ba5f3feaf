#include <algorithm>
#include <array>

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
constexpr std::int64_t kChunk = 8;       // pixels of a row whose gradients are added before the next channels

struct Call {
  const Gathered& product;
  const Phase& phase;
  ConstElements source;
  const float* weight;  // [place][channel]
  const float* bias;
  Elements target;
};

// Consecutive rows of dy, whose sums are one part.
struct WeightCall {
  const ConvolutionShape& shape;
  ConstElements x, dy;
  std::int64_t rows;  // of a part
  float* sums;        // [part][place][channel]
};

}  // namespace plimsoll::cpu::depthwise
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

using depthwise::Call;
using depthwise::kChunk;
using depthwise::WeightCall;

// The sums of K pixels of a row, `step` elements apart in the source. Without kWhole some taps may be padding.
template <int K, bool kWhole, class T, class Out>
HWY_INLINE void sum_pixels(const Call& call, const T* source, std::int64_t row, std::int64_t column, Out* target,
                           std::int64_t target_step) {
  const ImageShape& from = call.product.source;
  const std::int64_t channels = from.channels, step = call.product.move_w * channels;
  const Tap *const first = call.phase.taps.data(), *const last = first + call.phase.taps.size();
  for_vectors(channels, [&](std::int64_t c, auto vector) HWY_ATTR {
    Floats sums[K];
    for (int k = 0; k < K; ++k) sums[k] = call.bias == nullptr ? hn::Zero(F32()) : load_at(call.bias + c, vector);
    for (const Tap* tap = first; tap != last; ++tap) {
      if constexpr (!kWhole) {
        static_assert(K == 1);
        const std::int64_t y = row + tap->row, x = column + tap->column;
        if (y < 0 || y >= from.height || x < 0 || x >= from.width) continue;
      }
      const Floats weight = load_at(call.weight + tap->place * channels + c, vector);
      const T* pixel = source + (tap->row * from.width + tap->column) * channels + c;
      for (int k = 0; k < K; ++k) sums[k] = hn::MulAdd(load_at(pixel + k * step, vector), weight, sums[k]);
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

template <class T, class Out>
HWY_INLINE void sum_row(const Call& call, std::int64_t image, std::int64_t i) {
  const Gathered& product = call.product;
  const ImageShape &from = product.source, &to = product.target;
  const std::int64_t row = i * product.move_h, channels = from.channels, target_step = product.step_w * channels;
  const T* const source = call.source.as<T>() + (image * from.height + row) * from.width * channels;
  const std::int64_t y = call.phase.first_row + i * product.step_h;
  Out* const target = call.target.as<Out>() + ((image * to.height + y) * to.width + call.phase.first_column) * channels;
  bool whole = true;
  for (const Tap& tap : call.phase.taps) whole &= row + tap.row >= 0 && row + tap.row < from.height;
  const ops::IndexRange inside = whole ? whole_columns(call) : ops::IndexRange{0, 0};
  const auto at = [&](std::int64_t j, auto pixels, auto is_whole) HWY_ATTR {
    const std::int64_t column = j * product.move_w;
    sum_pixels<pixels.value, is_whole.value>(call, source + column * channels, row, column, target + j * target_step, target_step);
  };
  constexpr std::integral_constant<int, 4> kFour;
  constexpr std::integral_constant<int, 1> kOne;
  std::int64_t j = 0;
  for (; j < inside.begin; ++j) at(j, kOne, std::false_type());
  for (; j + 4 <= inside.end; j += 4) at(j, kFour, std::true_type());
  for (; j < inside.end; ++j) at(j, kOne, std::true_type());
  for (; j < call.phase.columns; ++j) at(j, kOne, std::false_type());
}

void sum_rows_of_phase(const Call& call) {
  const std::int64_t all = call.product.shape.batch * call.phase.rows;
  with_type(call.source.type, [&]<class T>(T) HWY_ATTR {
    const auto body = [&](auto out) HWY_ATTR {
      for_rows(all, call.phase.columns * call.product.target.channels, [&](std::int64_t row) HWY_ATTR {
        sum_row<T, decltype(out)>(call, row / call.phase.rows, row % call.phase.rows);
      });
    };
    if (call.target.type == DType::f32) return body(0.0F);
    body(T{});
  });
}

// Adds the products of pixels [begin, end) of a row of dy, for the places of one row of the kernel. All lie inside the image.
template <int kWidth, class T, class Vector>
HWY_INLINE void add_places(std::int64_t begin, std::int64_t end, const T* dy, const T* x, std::int64_t channels, std::int64_t step,
                           float* sums, Vector vector) {
  Floats of_place[kWidth];
  for (int k = 0; k < kWidth; ++k) of_place[k] = load_at(sums + k * channels, vector);
  for (std::int64_t j = begin; j < end; ++j) {
    const Floats d = load_at(dy + j * channels, vector);
    for (int k = 0; k < kWidth; ++k) of_place[k] = hn::MulAdd(d, load_at(x + j * step + k * channels, vector), of_place[k]);
  }
  for (int k = 0; k < kWidth; ++k) store_at(of_place[k], sums + k * channels, vector);
}

// Calls add_places for all places of a row of the kernel, up to five at a time.
template <class T, class Vector>
HWY_INLINE void add_kernel_row(std::int64_t places, std::int64_t begin, std::int64_t end, const T* dy, const T* x,
                               std::int64_t channels, std::int64_t step, float* sums, Vector vector) {
  while (places > 0) {
    const std::int64_t now = std::min<std::int64_t>(5, places);
    switch (now) {
      case 5: add_places<5>(begin, end, dy, x, channels, step, sums, vector); break;
      case 4: add_places<4>(begin, end, dy, x, channels, step, sums, vector); break;
      case 3: add_places<3>(begin, end, dy, x, channels, step, sums, vector); break;
      case 2: add_places<2>(begin, end, dy, x, channels, step, sums, vector); break;
      default: add_places<1>(begin, end, dy, x, channels, step, sums, vector);
    }
    places -= now, x += now * channels, sums += now * channels;
  }
}

template <class T>
HWY_INLINE void add_weight_row(const WeightCall& call, std::int64_t image, std::int64_t i, float* sums) {
  const ConvolutionShape& shape = call.shape;
  const ops::WindowAxes axes = shape.axes();
  const std::int64_t channels = shape.channels, columns = axes.columns.outputs(), step = axes.columns.stride * channels;
  const T* const dy = call.dy.as<T>() + (image * axes.rows.outputs() + i) * columns * channels;
  const ops::IndexRange places = axes.rows.inside(i);
  // Pixels whose places in a row of the kernel all lie inside.
  const std::int64_t whole_begin = axes.columns.outputs_inside(0).begin,
                     whole_end = std::max(whole_begin, axes.columns.outputs_inside(axes.columns.kernel - 1).end);
  for (std::int64_t first = 0; first < columns; first += kChunk) {
    const std::int64_t last = std::min(columns, first + kChunk);
    const std::int64_t begin = std::clamp(whole_begin, first, last), end = std::clamp(whole_end, begin, last);
    for_vectors(channels, [&](std::int64_t c, auto vector) HWY_ATTR {
      for (std::int64_t ky = places.begin; ky < places.end; ++ky) {
        const std::int64_t row = (image * shape.height + axes.rows.first(i) + ky) * shape.width;
        const T* const x = call.x.as<T>() + (row + axes.columns.first(0)) * channels + c;
        float* const of_row = sums + ky * shape.kernel_w * channels + c;
        if (begin < end) add_kernel_row(shape.kernel_w, begin, end, dy + c, x, channels, step, of_row, vector);
        for (std::int64_t j = first; j < last; ++j) {
          if (j == begin && begin < end) j = end;
          if (j >= last) break;
          const ops::IndexRange inside = axes.columns.inside(j);
          const std::int64_t count = inside.end - inside.begin;
          if (count <= 0) continue;
          const std::int64_t at = inside.begin * channels;
          add_kernel_row(count, j, j + 1, dy + c, x + at, channels, step, of_row + at, vector);
        }
      }
    });
  }
}

void add_weight_part(const WeightCall& call, std::int64_t part) {
  const ConvolutionShape& shape = call.shape;
  const std::int64_t height = shape.out_height(), all = shape.batch * height, n = shape.places() * shape.channels;
  float* const sums = call.sums + part * n;
  std::fill_n(sums, n, 0.0F);
  with_type(call.x.type, [&]<class T>(T) HWY_ATTR {
    for (std::int64_t row = part * call.rows; row < std::min(all, (part + 1) * call.rows); ++row) {
      add_weight_row<T>(call, row / height, row % height, sums);
    }
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
std::int64_t part_rows(const ConvolutionShape& shape) { return ceil_div(shape.batch * shape.out_height(), depthwise::kMostParts); }
std::int64_t weight_parts(const ConvolutionShape& shape) {
  return ceil_div(shape.batch * shape.out_height(), part_rows(shape));
}

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
