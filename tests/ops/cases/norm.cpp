#include "ops/norm/norm.h"

#include <cmath>

#include "ops/cases/cases.h"

namespace plimsoll::test {
namespace {

struct Statistics {
  Numbers mean, rstd;
};

Statistics statistics(const Numbers& x, std::size_t width, double epsilon) {
  Statistics result;
  for (std::size_t row = 0; row < x.size() / width; ++row) {
    double mean = 0, variance = 0;
    for (std::size_t i = 0; i < width; ++i) mean += x[row * width + i];
    mean /= static_cast<double>(width);
    for (std::size_t i = 0; i < width; ++i) variance += std::pow(x[row * width + i] - mean, 2);
    result.mean.push_back(mean);
    result.rstd.push_back(1 / std::sqrt(variance / static_cast<double>(width) + epsilon));
  }
  return result;
}

std::vector<Numbers> layer_norm(const ReferenceCall& call) {
  const Numbers &x = call.values[0], &gamma = call.values[1], &beta = call.values[2];
  const std::size_t width = gamma.size();
  const Statistics s = statistics(x, width, call.attributes.as<ops::LayerNormAttributes>().epsilon);
  Numbers y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    y[i] = (x[i] - s.mean[i / width]) * s.rstd[i / width] * gamma[i % width] + beta[i % width];
  }
  return {y, s.mean, s.rstd};
}

// dx = rstd (g - mean(g) - z mean(g z)) with z the normalised x and g = dy gamma.
std::vector<Numbers> layer_norm_backward(const ReferenceCall& call) {
  const Numbers &dy = call.values[0], &x = call.values[1], &mean = call.values[2], &rstd = call.values[3],
                &gamma = call.values[4];
  const std::size_t width = gamma.size();
  const auto& made = call.attributes.as<ops::LayerNormBackwardAttributes>();
  Numbers dx(x.size()), dgamma(width), dbeta(width);
  if (made.accumulate && made.gamma) dgamma = call.values[5];
  if (made.accumulate && made.beta) dbeta = call.values.back();
  for (std::size_t row = 0; row < mean.size(); ++row) {
    const auto z = [&](std::size_t i) { return (x[row * width + i] - mean[row]) * rstd[row]; };
    double sum = 0, projected = 0;
    for (std::size_t i = 0; i < width; ++i) {
      const double d = dy[row * width + i];
      sum += d * gamma[i], projected += d * gamma[i] * z(i);
      dgamma[i] += d * z(i), dbeta[i] += d;
    }
    const auto n = static_cast<double>(width);
    for (std::size_t i = 0; i < width; ++i) {
      dx[row * width + i] = rstd[row] * (dy[row * width + i] * gamma[i] - sum / n - z(i) * projected / n);
    }
  }
  std::vector<Numbers> outputs;
  if (made.x) outputs.push_back(dx);
  if (made.gamma) outputs.push_back(dgamma);
  if (made.beta) outputs.push_back(dbeta);
  return outputs;
}

struct Extents {
  Shape x;
  std::int64_t rows() const { return x.elements() / x.last(); }
};

const std::vector<Extents>& extents() {
  static const std::vector<Extents> list{{{1, 7}}, {{7, 65}}, {{2, 33, 64}}, {{130, 3}}, {{1, 1, 768}}};
  return list;
}
const Extents kLarge{{4, 1024, 768}};
const ops::LayerNormBackwardAttributes kParts[] = {
    {.gamma = false}, {.beta = false}, {.gamma = false, .beta = false}, {.x = false}, {.x = false, .beta = false}};

// A GPU holds rows of up to 8,192 elements in registers, in pieces of several sizes. It reads wider and odd rows again. Groups of
// rows may take more than one turn.
const std::vector<Extents>& wide_extents() {
  static const std::vector<Extents> list{{{40, 4}},   {{11, 200}},   {{3, 512}},  {{3, 1024}}, {{5, 1600}},   {{2, 2048}},
                                         {{2, 3600}}, {{140, 3588}}, {{2, 8192}}, {{2, 8200}}, {{270, 1021}}, {{3, 1031}}};
  return list;
}

OpCase forward(const Extents& e, double epsilon) {
  return {ops::LayerNormAttributes{epsilon}, {wanted(e.x, {-2, 3}), wanted({e.x.last()}, {0.5, 1.5}), wanted({e.x.last()})}};
}

OpCase backward(const Extents& e, ops::LayerNormBackwardAttributes made, bool overwrite) {
  const Shape width{e.x.last()}, rows{e.rows()};
  OpCase result{made, {f32(e.x), f32(e.x, {-2, 3}), f32(rows), f32(rows), f32(width, {0.5, 1.5})}};
  if (made.accumulate) result.inputs.insert(result.inputs.end(), static_cast<std::size_t>(made.sums()), f32(width));
  result.overwrite = overwrite;
  result.derive = [](std::vector<Numbers>& values) {
    const Statistics s = statistics(values[1], values[4].size(), 1e-5);
    values[2] = s.mean, values[3] = s.rstd;
  };
  return result;
}

}  // namespace

std::vector<OpCases> norm_cases() {
  std::vector<OpCase> forward_cases, backward_cases;
  for (const Extents& e : extents()) {
    forward_cases.push_back(forward(e, 1e-5));
    for (const DType dtype : {DType::bf16, DType::f16}) {
      OpCase rounded = with_inputs_of(DType::f32, {}, forward(e, 1e-5));
      rounded.attributes = ops::LayerNormAttributes{1e-5, dtype};
      forward_cases.push_back(std::move(rounded));
    }
    backward_cases.insert(backward_cases.end(), {backward(e, {}, false), backward(e, {true}, false), backward(e, {true}, true)});
  }
  // Frozen parameters have no gradient, and neither has an input below which nothing is trained.
  for (const ops::LayerNormBackwardAttributes& made : kParts) {
    for (const Extents& e : {Extents{{7, 65}}, Extents{{40, 200}}, Extents{{2, 3600}}}) {
      ops::LayerNormBackwardAttributes adds = made;
      adds.accumulate = true;
      backward_cases.push_back(backward(e, made, false));
      backward_cases.push_back(backward(e, adds, false));
      if (made.sums() > 0) backward_cases.push_back(backward(e, adds, true));
    }
  }
  for (const Extents& e : wide_extents()) {
    for (const DType output : {DType::f32, DType::bf16}) {
      OpCase wide = with_inputs_of(DType::f32, {}, forward(e, 1e-5));
      wide.attributes = ops::LayerNormAttributes{1e-5, output};
      forward_cases.push_back(std::move(wide));
    }
    backward_cases.push_back(backward(e, {true}, false));
  }
  forward_cases.push_back(forward({{7, 65}}, 0.1));
  forward_cases.push_back(timed(forward(kLarge, 1e-5)));
  backward_cases.push_back(timed(backward(kLarge, {true}, false)));
  return {{&ops::kLayerNorm, layer_norm, forward_cases, {}}, {&ops::kLayerNormBackward, layer_norm_backward, backward_cases, {}}};
}

}  // namespace plimsoll::test
