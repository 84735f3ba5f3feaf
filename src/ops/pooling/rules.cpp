#include <fmt/core.h>

#include <algorithm>

#include "ops/families.h"
#include "ops/pooling/pooling.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

// The shape of y.
Shape pooled(const Shape& x, std::int64_t kernel_h, std::int64_t kernel_w, const Window& window, std::string_view where) {
  const WindowAxes axes(x[1], x[2], kernel_h, kernel_w, window);
  require_window(axes, x, where);
  require(kernel_h * kernel_w <= kMostPlaces, where, fmt::format("the kernel is {} x {}", kernel_h, kernel_w),
          fmt::format("a kernel of up to {} places", kMostPlaces));
  const bool covered = std::max(window.top, window.bottom) < kernel_h && std::max(window.left, window.right) < kernel_w;
  require(covered, where, fmt::format("the kernel is {} x {}, the window {}", kernel_h, kernel_w, attribute_text(window)),
          "less padding than kernel, so that each window has a pixel");
  return {x[0], axes.rows.outputs(), axes.columns.outputs(), x[3]};
}

std::vector<ValueType> infer_max(const Attributes& any, TypeSpan inputs) {
  const auto& a = any.as<PoolAttributes>();
  require_inputs(inputs, 1, "max_pool");
  require_computable(inputs[0], "max_pool");
  require_images(inputs[0].shape, "max_pool");
  const Shape y = pooled(inputs[0].shape, a.kernel_h, a.kernel_w, a.window, "max_pool");
  return {{inputs[0].dtype, y}, {DType::u8, y}};
}

std::vector<ValueType> infer_max_backward(const Attributes& any, TypeSpan inputs) {
  constexpr std::string_view kWhere = "max_pool_backward";
  const auto& a = any.as<PoolBackwardAttributes>();
  require_inputs(inputs, 2, kWhere);
  require_computable(inputs[0], kWhere);
  const Shape& dy = inputs[0].shape;
  require_images(dy, kWhere);
  require_type(inputs[1], {DType::u8, dy}, kWhere, "the places");
  const Shape x{dy[0], a.height, a.width, dy[3]}, expected = pooled(x, a.kernel_h, a.kernel_w, a.window, kWhere);
  require(dy == expected, kWhere, fmt::format("dy is {} and dx {}", to_text(dy), to_text(x)), "dy of " + to_text(expected));
  return {{inputs[0].dtype, x}};
}

// A comparison for each place of each window.
Cost cost_of_max(const Attributes& any, TypeSpan inputs, TypeSpan outputs) {
  const auto& a = any.as<PoolAttributes>();
  return {static_cast<double>(a.kernel_h * a.kernel_w) * static_cast<double>(outputs[0].shape.elements()),
          bytes_touched(inputs, outputs)};
}

void gradient_of_max(GradientContext& context) {
  const auto& a = context.node().attributes.as<PoolAttributes>();
  const Shape x = context.builder().shape(context.input(0));
  context.contribute_if_wanted(0, kMaxPoolBackward, PoolBackwardAttributes{a.kernel_h, a.kernel_w, a.window, x[1], x[2]},
                               {context.gradient(0), context.output(1)});
}

Shape mean_of(const Shape& x, std::string_view where) {
  require(x.rank() >= 3 && x.elements() > 0, where, "x is " + to_text(x),
          "(batch, .., channels) with an axis between the first and the last");
  return {x[0], x.last()};
}

std::vector<ValueType> infer_mean(const Attributes& any, TypeSpan inputs) {
  const DType output = any.as<MeanPoolAttributes>().output;
  require_inputs(inputs, 1, "mean_pool");
  require_computable(inputs[0], "mean_pool");
  require_computable(output, "mean_pool", "the output");
  return {{output, mean_of(inputs[0].shape, "mean_pool")}};
}

std::vector<ValueType> infer_mean_backward(const Attributes& any, TypeSpan inputs) {
  constexpr std::string_view kWhere = "mean_pool_backward";
  const auto& a = any.as<MeanPoolBackwardAttributes>();
  require_inputs(inputs, 1, kWhere);
  require_computable(inputs[0], kWhere);
  require_computable(a.output, kWhere, "the output");
  const Shape &dy = inputs[0].shape, expected = mean_of(a.shape, kWhere);
  require(dy == expected, kWhere, fmt::format("dy is {} and dx {}", to_text(dy), to_text(a.shape)), "dy of " + to_text(expected));
  return {{a.output, a.shape}};
}

void gradient_of_mean(GradientContext& context) {
  const MeanPoolBackwardAttributes attributes{context.builder().shape(context.input(0))};
  context.contribute_if_wanted(0, kMeanPoolBackward, attributes, {context.gradient(0)});
}

}  // namespace

const OpDef kMaxPool{.name = "max_pool",
                     .infer = infer_max,
                     .cost = cost_of_max,
                     .gradient = gradient_of_max,
                     .either = inputs_at<0>,
                     .alike = true};
const OpDef kMaxPoolBackward{.name = "max_pool_backward",
                             .infer = infer_max_backward,
                             .cost = cost_per_element<1>,
                             .not_differentiable = kFirstOrderOnly,
                             .either = inputs_at<0>,
                             .alike = true};
const OpDef kMeanPool{.name = "mean_pool",
                      .infer = infer_mean,
                      .cost = cost_per_element<1>,
                      .gradient = gradient_of_mean,
                      .either = inputs_at<0>,
                      .rounded = with_output<MeanPoolAttributes>};
const OpDef kMeanPoolBackward{.name = "mean_pool_backward",
                              .infer = infer_mean_backward,
                              .cost = cost_per_element<1>,
                              .not_differentiable = kFirstOrderOnly,
                              .either = inputs_at<0>,
                              .rounded = with_output<MeanPoolBackwardAttributes>};

OpList pooling_ops() { return {{&kMaxPool}, {&kMaxPoolBackward}, {&kMeanPool}, {&kMeanPoolBackward}}; }

ValueId max_pool(GraphBuilder& builder, ValueId x, PoolAttributes attributes, std::string name) {
  const std::string places = name.empty() ? "places" : name + ".places";
  return builder.add(kMaxPool, attributes, {x}, {std::move(name), places}).front();
}

ValueId mean_pool(GraphBuilder& builder, ValueId x, std::string name) {
  return builder.add1(kMeanPool, MeanPoolAttributes{}, {x}, std::move(name));
}

}  // namespace plimsoll::ops
