#include "models/conv_norm.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "ops/statistic/statistic.h"

namespace plimsoll {
namespace {

// A window whose outputs are inputs / stride, rounded up. The larger half of the padding is after the image.
void pad_unevenly(std::int64_t size, const ConvNormShape& shape, std::int64_t& before, std::int64_t& after) {
  const std::int64_t rest = size % shape.stride == 0 ? shape.stride : size % shape.stride;
  const std::int64_t all = std::max<std::int64_t>(shape.kernel - rest, 0);
  before = all / 2;
  after = all - before;
}

ops::Window window_of(const ConvNormShape& shape, const Shape& x) {
  ops::Window window = ops::square_window(shape.stride, shape.kernel / 2);
  if (!shape.uneven) return window;
  pad_unevenly(x[1], shape, window.top, window.bottom);
  pad_unevenly(x[2], shape, window.left, window.right);
  return window;
}

}  // namespace

ConvNorm::ConvNorm(GraphBuilder& builder, ConvNormNames names, const ConvNormShape& shape, const NormOptions& norm)
    : names_(std::move(names)), shape_(shape), norm_(norm) {
  const std::int64_t k = shape.kernel, channels = shape.depthwise ? 1 : shape.channels;
  // A 1 x 1 product over all pixels is a linear layer.
  const bool linear = k == 1 && shape.stride == 1 && !shape.depthwise;
  const double std = std::sqrt(2.0 / static_cast<double>(shape.depthwise ? k * k : shape.outputs * k * k));  // He et al., 2015
  weight_ = builder.add_parameter(names_.convolution + ".weight",
                                  {.shape = linear ? Shape{channels, shape.outputs} : Shape{k, k, channels, shape.outputs},
                                   .initializer = {Initializer::Kind::normal, std},
                                   .in_files = Shape{shape.outputs, channels, k, k}});
  layer_.gamma = builder.add_parameter(names_.norm + ".weight", {shape.outputs}, {Initializer::Kind::ones, 0});
  layer_.beta = builder.add_parameter(names_.norm + ".bias", {shape.outputs}, {});
  layer_.mean = ops::add_statistic(builder, names_.norm + kRunningMean, shape.outputs);
  layer_.variance = ops::add_statistic(builder, names_.norm + kRunningVariance, shape.outputs, {Initializer::Kind::ones, 0});
  layer_.windows = builder.add_parameter(
      names_.norm + kWindows, {.shape = {1}, .kind = ParameterKind::statistic, .storage = DType::i64, .in_files = Shape{}});
  layer_.epsilon = shape.epsilon;
  layer_.momentum = norm.momentum;
  fixed_ = norm.fixes(names_.norm);
}

ValueId ConvNorm::operator()(GraphBuilder& builder, ValueId x, const ImageStep& step, ops::NormActivation activation,
                             ValueId residual) const {
  const Shape from = builder.shape(x);
  ops::ConvolutionAttributes attributes{.window = window_of(shape_, from),
                                        .groups = shape_.depthwise ? shape_.channels : std::int64_t{1}};
  ValueId y;
  {
    const GraphBuilder::Scope scope(builder, names_.convolution);
    y = ops::convolution(builder, x, weight_, {}, attributes, "");
  }
  const GraphBuilder::Scope scope(builder, names_.norm);
  if (!step.training || fixed_) return ops::fixed_norm(builder, y, layer_, residual, activation, "");
  require_values(builder.shape(y));
  return ops::batch_norm(builder, y, layer_, step.sample_ids, residual, activation, norm_.group, "");
}

void ConvNorm::require_values(const Shape& x) const {
  if (norm_.group * x[1] * x[2] > 1) return;
  throw config_error(
      "E-BATCH-NORM", "norm.stat_batch",
      fmt::format("{} normalises images of {} x {}: a group of one sample has one value for each channel", names_.norm, x[1],
                  x[2]),
      "two samples or more in a group: norm.stat_batch, and a batch that it divides; larger images; or running statistics",
      {Remedy::of_changes({{"norm.statistics", "running"}, {"norm.stat_batch", "auto"}})});
}

nn::Projection class_head(GraphBuilder& builder, const std::string& name, std::int64_t inputs, std::int64_t classes, bool fresh) {
  const Initializer uniform{Initializer::Kind::uniform, 1 / std::sqrt(3 * static_cast<double>(inputs))};
  nn::Projection head(name, builder.add_parameter(name + ".weight", {classes, inputs}, uniform));
  head.bias = builder.add_parameter(name + ".bias", {classes}, uniform);
  for (const ValueId each : {head.weight, head.bias}) builder.mark_head(each, fresh);
  return head;
}

}  // namespace plimsoll
