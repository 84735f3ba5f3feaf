#include "ops/rms_norm/rms_norm.h"

#include <cmath>

#include "ops/cases/cases.h"

namespace plimsoll::test {
namespace {

constexpr double kEpsilon = 1e-5;

Numbers rstd_of(const Numbers& x, std::size_t width) {
  Numbers rstd;
  for (std::size_t row = 0; row < x.size() / width; ++row) {
    double squares = 0;
    for (std::size_t i = 0; i < width; ++i) squares += x[row * width + i] * x[row * width + i];
    rstd.push_back(1 / std::sqrt(squares / static_cast<double>(width) + kEpsilon));
  }
  return rstd;
}

// x rstd, rounded to the dtype of y.
Numbers rounded_hat(const Numbers& x, const Numbers& rstd, DType output) {
  Numbers hat = x;
  for (std::size_t i = 0; i < x.size(); ++i) hat[i] *= rstd[i / (x.size() / rstd.size())];
  return output == DType::f32 ? hat : round_to(hat, output);
}

// Zeroes elements of x for which x rstd lies so close to a tie of the dtype of y that fp32 may take the other neighbour.
void avoid_ties(Numbers& x, std::size_t width, DType output) {
  constexpr double kError = 0x1p-20;
  for (auto row = x.begin(); row != x.end(); row += static_cast<std::ptrdiff_t>(width)) {
    Numbers below(width), above(width);
    for (bool ties = true; ties;) {
      const Numbers of_row(row, row + static_cast<std::ptrdiff_t>(width));
      const double rstd = rstd_of(of_row, width).front();
      for (std::size_t i = 0; i < width; ++i)
        below[i] = of_row[i] * rstd * (1 - kError), above[i] = of_row[i] * rstd * (1 + kError);
      below = round_to(below, output), above = round_to(above, output);
      ties = below != above;
      for (std::size_t i = 0; i < width; ++i) row[static_cast<std::ptrdiff_t>(i)] = below[i] == above[i] ? of_row[i] : 0;
    }
  }
}

std::vector<Numbers> rms_norm(const ReferenceCall& call) {
  const Numbers &x = call.values[0], &weight = call.values[1];
  const Numbers rstd = rstd_of(x, weight.size());
  Numbers y = rounded_hat(x, rstd, call.outputs[0].dtype);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] *= weight[i % weight.size()];
  return {y, rstd};
}

Numbers weight_gradient(const Numbers& dy, const Numbers& x, const Numbers& rstd, DType output, Numbers sum) {
  const Numbers hat = rounded_hat(x, rstd, output);
  for (std::size_t i = 0; i < dy.size(); ++i) sum[i % sum.size()] += dy[i] * hat[i];
  return sum;
}

// dx = rstd (g - z mean(g z)) with z = x rstd and g = dy weight.
std::vector<Numbers> rms_norm_backward(const ReferenceCall& call) {
  const Numbers &dy = call.values[0], &x = call.values[1], &rstd = call.values[2], &weight = call.values[3];
  const std::size_t width = weight.size();
  const auto& made = call.attributes.as<ops::RmsNormBackwardAttributes>();
  Numbers dx(x.size());
  for (std::size_t row = 0; row < rstd.size(); ++row) {
    double projected = 0;
    const auto z = [&](std::size_t i) { return x[row * width + i] * rstd[row]; };
    const auto g = [&](std::size_t i) { return dy[row * width + i] * weight[i]; };
    for (std::size_t i = 0; i < width; ++i) projected += g(i) * z(i) / static_cast<double>(width);
    for (std::size_t i = 0; i < width; ++i) dx[row * width + i] = rstd[row] * (g(i) - z(i) * projected);
  }
  if (!made.weight) return {dx};
  return {dx, weight_gradient(dy, x, rstd, made.output, made.accumulate ? call.values[4] : Numbers(width))};
}

std::vector<Numbers> weight_only(const ReferenceCall& call) {
  const auto& made = call.attributes.as<ops::RmsNormBackwardAttributes>();
  const Numbers &x = call.values[1], &rstd = call.values[2];
  const Numbers into = made.accumulate ? call.values[3] : Numbers(x.size() / rstd.size());
  return {weight_gradient(call.values[0], x, rstd, made.output, into)};
}

struct Extents {
  Shape x;
  std::int64_t width;
  std::int64_t rows() const { return x.elements() / width; }
};

// The last extents have several rows in the last axis.
const std::vector<Extents>& extents() {
  static const std::vector<Extents> list{{{1, 7}, 7},        {{7, 65}, 65},    {{2, 33, 64}, 64}, {{130, 3}, 3},
                                         {{1, 1, 768}, 768}, {{2, 9, 80}, 16}, {{3, 70, 24}, 8}};
  return list;
}
// Enough rows to make the tiles grow. They take long over the emulation, so they have few cases.
const Extents kManyRows{{1, 17500, 8}, 2};

// A GPU holds rows of up to 8,192 elements in registers, in pieces of several sizes. It reads wider and odd rows again. Groups of
// rows may take more than one turn.
const std::vector<Extents>& wide_extents() {
  static const std::vector<Extents> list{{{40, 4}, 4},      {{11, 200}, 200},  {{3, 512}, 512},    {{3, 768}, 768},
                                         {{3, 1024}, 1024}, {{5, 1600}, 1600}, {{2, 2048}, 2048},  {{2, 3600}, 3600},
                                         {{2, 8192}, 8192}, {{2, 8200}, 8200}, {{3, 1031}, 1031},  {{270, 1021}, 1021},
                                         {{9, 1280}, 128},  {{1, 500, 80}, 8}, {{140, 3588}, 3588}};
  return list;
}

OpCase forward(const Extents& e, DType x, DType output) {
  OpCase result{ops::RmsNormAttributes{kEpsilon, output}, {wanted(e.x, {-2, 3}), wanted({e.width}, {0.5, 1.5})}};
  if (output != DType::f32) {
    result.derive = [width = extent(e.width), output](std::vector<Numbers>& values) { avoid_ties(values[0], width, output); };
  }
  return x == DType::f32 && output == DType::f32 ? result : with_inputs_of(x, {0}, result);
}

// dy and x of these dtypes.
OpCase backward(const OpDef& op, const Extents& e, std::vector<DType> types, ops::RmsNormBackwardAttributes made,
                bool overwrite = false) {
  OpCase result{made, {f32(e.x), f32(e.x, {-2, 3}), f32(Shape{e.rows()})}, overwrite};
  if (&op == &ops::kRmsNormBackward) result.inputs.push_back(f32({e.width}, {0.5, 1.5}));
  if (made.accumulate) result.inputs.push_back(f32({e.width}));
  for (std::size_t i = 0; i < types.size(); ++i) result.inputs[i].type.dtype = types[i];
  if (made.output != DType::f32) result.rounds_within = made.output;
  result.derive = [width = extent(e.width)](std::vector<Numbers>& values) { values[2] = rstd_of(values[1], width); };
  return result;
}

}  // namespace

std::vector<OpCases> rms_norm_cases() {
  constexpr DType kWide = DType::f32, kDtypes[] = {DType::f32, DType::bf16, DType::f16};
  std::vector<OpCase> forwards, backwards, weights;
  const auto add = [&](const Extents& e, std::vector<DType> types, ops::RmsNormBackwardAttributes made, bool overwrite = false) {
    if (types[0] == types[1]) backwards.push_back(backward(ops::kRmsNormBackward, e, types, made, overwrite));
    if (made.weight) weights.push_back(backward(ops::kRmsNormWeightGradient, e, types, made, overwrite));
  };
  for (const Extents& e : extents()) {
    for (const DType x : kDtypes) {
      for (const DType output : kDtypes) forwards.push_back(forward(e, x, output));
      for (const DType dy : kDtypes) add(e, {dy, x}, {});
      add(e, {x, x}, {.weight = false});
      add(e, {x, x}, {.output = x});
    }
    add(e, {kWide, kWide}, {.output = DType::bf16});
    add(e, {kWide, kWide}, {.accumulate = true});
    add(e, {kWide, kWide}, {.accumulate = true}, true);
  }
  forwards.push_back(forward(kManyRows, kWide, kWide));
  add(kManyRows, {kWide, kWide}, {.accumulate = true});
  add(kManyRows, {DType::f16, DType::bf16}, {.output = DType::bf16});
  for (const Extents& e : wide_extents()) {
    for (const DType x : kDtypes) {
      if (x == DType::f16 && e.x.elements() > 100'000) continue;
      forwards.push_back(with_inputs_of(x, {0}, forward(e, x, kWide)));
      if (e.x.elements() < 10'000) forwards.push_back(with_inputs_of(x, {0}, forward(e, x, x)));
      add(e, {x, x}, {.accumulate = true, .output = x});
    }
    add(e, {kWide, kWide}, {.weight = false});
  }
  const Extents large{{4, 1024, 768}, 768}, heads{{4, 1024, 1024}, 64};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Extents& e : {large, heads}) {
      forwards.push_back(timed(forward(e, dtype, dtype)));
      backwards.push_back(timed(backward(ops::kRmsNormBackward, e, {dtype, dtype}, {.accumulate = true, .output = dtype})));
    }
  }
  weights.push_back(timed(backward(ops::kRmsNormWeightGradient, large, {kWide, kWide}, {.accumulate = true})));
  return {{&ops::kRmsNorm, rms_norm, forwards, {}},
          {&ops::kRmsNormBackward, rms_norm_backward, backwards, {}},
          {&ops::kRmsNormWeightGradient, weight_only, weights, {}}};
}

}  // namespace plimsoll::test
