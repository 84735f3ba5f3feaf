#include "ops/pooling/pooling.h"

#include <cmath>
#include <limits>

#include "ops/cases/cases.h"

namespace plimsoll::test {
namespace {

using ops::PoolAttributes;
using ops::PoolBackwardAttributes;

// The element of x at a place of a window of y; false for padding.
bool pixel_of(const Shape& x, const ops::WindowAxes& axes, std::int64_t b, std::int64_t i, std::int64_t j, std::int64_t place,
              std::int64_t c, std::size_t& at) {
  const std::int64_t row = axes.rows.first(i) + place / axes.columns.kernel,
                     column = axes.columns.first(j) + place % axes.columns.kernel;
  if (row < 0 || row >= x[1] || column < 0 || column >= x[2]) return false;
  at = extent(((b * x[1] + row) * x[2] + column) * x[3] + c);
  return true;
}

template <class Visit>
void for_outputs(const Shape& y, Visit visit) {
  std::size_t at = 0;
  for (std::int64_t b = 0; b < y[0]; ++b) {
    for (std::int64_t i = 0; i < y[1]; ++i) {
      for (std::int64_t j = 0; j < y[2]; ++j) {
        for (std::int64_t c = 0; c < y[3]; ++c) visit(b, i, j, c, at++);
      }
    }
  }
}

std::vector<Numbers> max_pool(const ReferenceCall& call) {
  const auto& a = call.attributes.as<PoolAttributes>();
  const Shape x = call.shape(0), y = call.outputs[0].shape;
  const ops::WindowAxes axes(x[1], x[2], a.kernel_h, a.kernel_w, a.window);
  Numbers out(elements(call.outputs[0])), places(out.size());
  for_outputs(y, [&](std::int64_t b, std::int64_t i, std::int64_t j, std::int64_t c, std::size_t at) {
    double best = -std::numeric_limits<double>::infinity();
    bool any = false;
    for (std::int64_t place = 0; place < a.kernel_h * a.kernel_w; ++place) {
      std::size_t pixel = 0;
      if (!pixel_of(x, axes, b, i, j, place, c, pixel)) continue;
      if (any && !(call.values[0][pixel] > best)) continue;
      best = call.values[0][pixel], places[at] = static_cast<double>(place), any = true;
    }
    out[at] = best;
  });
  return {out, places};
}

std::vector<Numbers> max_pool_backward(const ReferenceCall& call) {
  const auto& a = call.attributes.as<PoolBackwardAttributes>();
  const Shape x = call.outputs[0].shape;
  const ops::WindowAxes axes(x[1], x[2], a.kernel_h, a.kernel_w, a.window);
  Numbers out(elements(call.outputs[0]));
  for_outputs(call.shape(0), [&](std::int64_t b, std::int64_t i, std::int64_t j, std::int64_t c, std::size_t at) {
    std::size_t pixel = 0;
    if (pixel_of(x, axes, b, i, j, static_cast<std::int64_t>(call.values[1][at]), c, pixel)) out[pixel] += call.values[0][at];
  });
  return {out};
}

struct Pool {
  Shape x;
  std::int64_t kernel_h, kernel_w;
  ops::Window window;

  PoolAttributes attributes() const { return {kernel_h, kernel_w, window}; }
  Shape y() const {
    const ops::WindowAxes axes(x[1], x[2], kernel_h, kernel_w, window);
    return {x[0], axes.rows.outputs(), axes.columns.outputs(), x[3]};
  }
};

const std::vector<Pool>& pools() {
  static const std::vector<Pool> list{{{1, 1, 1, 1}, 1, 1, {}},
                                      {{2, 6, 8, 3}, 2, 2, ops::square_window(2)},
                                      {{2, 9, 7, 17}, 3, 3, ops::square_window(2, 1)},
                                      {{3, 5, 6, 65}, 3, 2, {1, 2, 0, 2, 1, 0}},
                                      {{1, 11, 10, 16}, 2, 3, {5, 4, 1, 0, 0, 2}},
                                      {{1, 16, 16, 5}, 16, 16, {}}};
  return list;
}
const Pool kStem{{32, 32, 32, 64}, 3, 3, ops::square_window(2, 1)};

// x has equal numbers in every window if `ties`: whole numbers of a small range.
OpCase max_case(const Pool& pool, bool ties) {
  OpCase result{pool.attributes(), {wanted(pool.x)}};
  if (!ties) return result;
  result.inputs = {f32(pool.x, {-2, 2})};
  result.derive = [](std::vector<Numbers>& values) {
    for (double& x : values[0]) x = std::round(x);
  };
  return result;
}

// The places are those of the pixels in the middle of each window, inside or not: random places may lie in the padding.
OpCase max_backward_case(const Pool& pool) {
  return {PoolBackwardAttributes{pool.kernel_h, pool.kernel_w, pool.window, pool.x[1], pool.x[2]},
          {f32(pool.y()), {{DType::u8, pool.y()}, {0, static_cast<double>(pool.kernel_h * pool.kernel_w)}, false}}};
}

std::vector<OpCase> max_cases() {
  std::vector<OpCase> cases;
  for (const Pool& pool : pools()) {
    for (const bool ties : {false, true}) {
      cases.push_back(max_case(pool, ties));
      for (const DType dtype : {DType::bf16, DType::f16}) cases.push_back(with_inputs_of(dtype, {0}, max_case(pool, ties)));
    }
  }
  cases.push_back(timed(max_case(kStem, false)));
  return cases;
}

std::vector<OpCase> max_backward_cases() {
  std::vector<OpCase> cases;
  for (const Pool& pool : pools()) {
    cases.push_back(max_backward_case(pool));
    for (const DType dtype : {DType::bf16, DType::f16}) cases.push_back(with_inputs_of(dtype, {0}, max_backward_case(pool)));
  }
  cases.push_back(timed(max_backward_case(kStem)));
  return cases;
}

std::size_t positions_of(const Shape& x) { return extent(x.elements() / (x[0] * x.last())); }

std::vector<Numbers> mean_pool(const ReferenceCall& call) {
  const std::size_t positions = positions_of(call.shape(0)), channels = extent(call.shape(0).last());
  Numbers out(elements(call.outputs[0]));
  for (std::size_t i = 0; i < call.values[0].size(); ++i) {
    out[i / (positions * channels) * channels + i % channels] += call.values[0][i] / static_cast<double>(positions);
  }
  return {out};
}

std::vector<Numbers> mean_pool_backward(const ReferenceCall& call) {
  const std::size_t positions = positions_of(call.outputs[0].shape), channels = extent(call.shape(0).last());
  Numbers out(elements(call.outputs[0]));
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = call.values[0][i / (positions * channels) * channels + i % channels] / static_cast<double>(positions);
  }
  return {out};
}

const std::vector<Shape>& mean_shapes() {
  static const std::vector<Shape> list{{1, 1, 1, 1}, {2, 7, 7, 65}, {3, 5, 17}, {1, 197, 130}, {4, 2, 3, 2, 40}};
  return list;
}

std::vector<OpCase> mean_cases() {
  std::vector<OpCase> cases;
  for (const Shape& x : mean_shapes()) {
    cases.push_back({ops::MeanPoolAttributes{}, {wanted(x)}});
    for (const DType dtype : {DType::bf16, DType::f16}) {
      cases.push_back({ops::MeanPoolAttributes{dtype}, {f32(x)}});
      cases.push_back(with_inputs_of(dtype, {0}, cases.back()));
      cases.push_back(with_inputs_of(dtype, {0}, {ops::MeanPoolAttributes{}, {f32(x)}}));
    }
  }
  cases.push_back(timed({ops::MeanPoolAttributes{}, {f32({64, 7, 7, 2048})}}));
  return cases;
}

std::vector<OpCase> mean_backward_cases() {
  std::vector<OpCase> cases;
  for (const Shape& x : mean_shapes()) {
    const Shape y{x[0], x.last()};
    cases.push_back({ops::MeanPoolBackwardAttributes{x}, {f32(y)}});
    for (const DType dtype : {DType::bf16, DType::f16}) {
      cases.push_back({ops::MeanPoolBackwardAttributes{x, dtype}, {f32(y)}});
      cases.push_back(with_inputs_of(dtype, {0}, cases.back()));
      cases.push_back(with_inputs_of(dtype, {0}, {ops::MeanPoolBackwardAttributes{x}, {f32(y)}}));
    }
  }
  cases.push_back(timed({ops::MeanPoolBackwardAttributes{{64, 7, 7, 2048}}, {f32({64, 2048})}}));
  return cases;
}

}  // namespace

std::vector<OpCases> pooling_cases() {
  return {{&ops::kMaxPool, max_pool, max_cases(), {}},
          {&ops::kMaxPoolBackward, max_pool_backward, max_backward_cases(), {}},
          {&ops::kMeanPool, mean_pool, mean_cases(), {}},
          {&ops::kMeanPoolBackward, mean_pool_backward, mean_backward_cases(), {}}};
}

}  // namespace plimsoll::test
