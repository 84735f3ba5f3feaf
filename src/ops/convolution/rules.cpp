#include <fmt/core.h>

#include "ops/convolution/convolution.h"
#include "ops/families.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce/reduce.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

void require_operands(TypeSpan inputs, std::string_view where) {
  require_computable(inputs[0], where, "an operand");
  require_dtype(inputs.first(2), inputs[0].dtype, where);
}

void require_output(DType output, DType operands, std::string_view where) {
  require(output == DType::f32 || output == operands, where, fmt::format("the output is {}", name(output)),
          "fp32, or the type of the operands");
}

void require_groups(std::int64_t groups, std::int64_t channels, std::int64_t outputs, std::string_view where) {
  require(groups > 0 && channels % groups == 0 && outputs % groups == 0, where,
          fmt::format("{} input and {} output channels are in {} groups", channels, outputs, groups), "groups that divide both");
}

Shape output_shape(const WindowAxes& axes, const Shape& x, std::int64_t outputs) {
  return {x[0], axes.rows.outputs(), axes.columns.outputs(), outputs};
}

std::vector<ValueType> infer(const Attributes& any, TypeSpan inputs) {
  constexpr std::string_view kWhere = "convolution";
  const auto& a = any.as<ConvolutionAttributes>();
  require_inputs(inputs, 2 + std::size_t{a.bias}, kWhere);
  require_operands(inputs, kWhere);
  require_output(a.output, inputs[0].dtype, kWhere);
  const Shape &x = inputs[0].shape, &w = inputs[1].shape;
  require_images(x, kWhere);
  require(w.rank() == 4 && a.groups > 0 && x[3] == w[2] * a.groups, kWhere,
          fmt::format("x is {} and the weight {} in {} groups", to_text(x), to_text(w), a.groups),
          "a weight of (kernel height, kernel width, channels / groups, outputs)");
  require_groups(a.groups, x[3], w[3], kWhere);
  const WindowAxes axes(x[1], x[2], w[0], w[1], a.window);
  require_window(axes, x, kWhere);
  if (a.bias) require_type(inputs[2], {DType::f32, Shape{w[3]}}, kWhere, "the bias");
  return {{a.output, output_shape(axes, x, w[3])}};
}

std::vector<ValueType> infer_input(const Attributes& any, TypeSpan inputs) {
  constexpr std::string_view kWhere = "convolution_input";
  const auto& a = any.as<ConvolutionInputAttributes>();
  require_inputs(inputs, 2, kWhere);
  require_operands(inputs, kWhere);
  require_output(a.output, inputs[0].dtype, kWhere);
  const Shape &dy = inputs[0].shape, &w = inputs[1].shape;
  require_images(dy, kWhere);
  require(w.rank() == 4 && a.groups > 0, kWhere, fmt::format("the weight is {} in {} groups", to_text(w), a.groups),
          "a weight of (kernel height, kernel width, channels / groups, outputs)");
  const Shape x{dy[0], a.height, a.width, w[2] * a.groups};
  require_groups(a.groups, x[3], w[3], kWhere);
  const WindowAxes axes(a.height, a.width, w[0], w[1], a.window);
  require_window(axes, x, kWhere);
  const Shape expected = output_shape(axes, x, w[3]);
  require(dy == expected, kWhere, fmt::format("dy is {} and dx {}", to_text(dy), to_text(x)), "dy of " + to_text(expected));
  return {{a.output, x}};
}

std::vector<ValueType> infer_weight(const Attributes& any, TypeSpan inputs) {
  constexpr std::string_view kWhere = "convolution_weight";
  const auto& a = any.as<ConvolutionWeightAttributes>();
  require_inputs(inputs, 2 + std::size_t{a.accumulate}, kWhere);
  require_operands(inputs, kWhere);
  const Shape &x = inputs[0].shape, &dy = inputs[1].shape;
  require_images(x, kWhere);
  require_images(dy, kWhere);
  require_groups(a.groups, x[3], dy[3], kWhere);
  const WindowAxes axes(x[1], x[2], a.kernel_h, a.kernel_w, a.window);
  require_window(axes, x, kWhere);
  const Shape expected = output_shape(axes, x, dy[3]);
  require(dy == expected, kWhere, fmt::format("dy is {} and x {}", to_text(dy), to_text(x)), "dy of " + to_text(expected));
  const ValueType dw{DType::f32, {a.kernel_h, a.kernel_w, x[3] / a.groups, dy[3]}};
  if (a.accumulate) require_type(inputs[2], dw, kWhere, "the accumulator");
  return {dw};
}

// Each output sums the products of its window, padding included. All three products have as many.
Cost cost_of(const Shape& y, const Shape& w, TypeSpan inputs, TypeSpan outputs) {
  const double window = static_cast<double>(w[0]) * static_cast<double>(w[1]) * static_cast<double>(w[2]);
  return {2 * window * static_cast<double>(y.elements()), bytes_touched(inputs, outputs), inputs[0].dtype};
}
Cost cost(const Attributes&, TypeSpan inputs, TypeSpan outputs) {
  return cost_of(outputs[0].shape, inputs[1].shape, inputs, outputs);
}
Cost cost_of_input(const Attributes&, TypeSpan inputs, TypeSpan outputs) {
  return cost_of(inputs[0].shape, inputs[1].shape, inputs, outputs);
}
Cost cost_of_weight(const Attributes&, TypeSpan inputs, TypeSpan outputs) {
  return cost_of(inputs[1].shape, outputs[0].shape, inputs, outputs);
}

// Weight gradient first: it is the last reader of the activation, whose bytes the input gradient can then take.
void gradient(GradientContext& context) {
  const auto& a = context.node().attributes.as<ConvolutionAttributes>();
  const ValueId dy = context.gradient(0), x = context.input(0), w = context.input(1);
  const Shape image = context.builder().shape(x), kernel = context.builder().shape(w);
  if (a.bias && context.wants(2)) context.contribute(2, kSumRows, AccumulateAttributes{}, {dy});
  if (context.wants(1)) {
    context.contribute(1, kConvolutionWeight, ConvolutionWeightAttributes{a.window, a.groups, kernel[0], kernel[1]}, {x, dy});
  }
  context.contribute_if_wanted(0, kConvolutionInput, ConvolutionInputAttributes{a.window, a.groups, image[1], image[2]}, {dy, w});
}

Shape patches_of(const Shape& x, std::int64_t height, std::int64_t width, std::string_view where) {
  require_images(x, where);
  const bool fit = height > 0 && width > 0 && height <= x[1] && width <= x[2];
  require(fit, where, fmt::format("a patch is {} x {} and x {}", height, width, to_text(x)), "patches that fit into the image");
  return {x[0], x[1] / height, x[2] / width, height * width * x[3]};
}

std::vector<ValueType> infer_patches(const Attributes& any, TypeSpan inputs) {
  const auto& a = any.as<PatchAttributes>();
  require_inputs(inputs, 1, "patches");
  require_computable(inputs[0], "patches");
  require_computable(a.output, "patches", "the output");
  return {{a.output, patches_of(inputs[0].shape, a.height, a.width, "patches")}};
}

std::vector<ValueType> infer_patches_backward(const Attributes& any, TypeSpan inputs) {
  constexpr std::string_view kWhere = "patches_backward";
  const auto& a = any.as<PatchBackwardAttributes>();
  require_inputs(inputs, 1, kWhere);
  require_computable(inputs[0], kWhere);
  require_computable(a.output, kWhere, "the output");
  const Shape& dy = inputs[0].shape;
  require_images(dy, kWhere);
  const std::int64_t pixels = a.height * a.width;
  require(pixels > 0 && dy[3] % pixels == 0, kWhere, fmt::format("dy is {} and a patch {} x {}", to_text(dy), a.height, a.width),
          "whole patches");
  const Shape x{dy[0], a.image_height, a.image_width, dy[3] / pixels};
  const Shape expected = patches_of(x, a.height, a.width, kWhere);
  require(dy == expected, kWhere, fmt::format("dy is {} and dx {}", to_text(dy), to_text(x)), "dy of " + to_text(expected));
  return {{a.output, x}};
}

void gradient_of_patches(GradientContext& context) {
  const auto& a = context.node().attributes.as<PatchAttributes>();
  const Shape x = context.builder().shape(context.input(0));
  context.contribute_if_wanted(0, kPatchesBackward, PatchBackwardAttributes{a.height, a.width, x[1], x[2]},
                               {context.gradient(0)});
}

// A linear layer over patches.
ValueId patch_convolution(GraphBuilder& builder, ValueId x, ValueId weight, ValueId bias, const ConvolutionAttributes& a,
                          std::string name) {
  const Window& window = a.window;
  const Shape w = builder.shape(weight);
  require(window == Window{window.stride_h, window.stride_w} && a.groups == 1, "convolution",
          fmt::format("the weight is {}, the window {} in {} groups", to_text(w), attribute_text(window), a.groups),
          "a weight of four axes, or patches without padding in one group");
  if (window.stride_h != 1 || window.stride_w != 1) {
    x = builder.add1(kPatches, PatchAttributes{window.stride_h, window.stride_w}, {x},
                     name.empty() ? "patches" : name + ".patches");
  }
  return linear(builder, x, weight, bias, std::move(name));
}

}  // namespace

const OpDef kConvolution{.name = "convolution",
                         .infer = infer,
                         .cost = cost,
                         .gradient = gradient,
                         .narrow = inputs_at<0, 1>,
                         .rounded = with_output<ConvolutionAttributes>,
                         .costly = true};
const OpDef kConvolutionInput{.name = "convolution_input",
                              .infer = infer_input,
                              .cost = cost_of_input,
                              .not_differentiable = kFirstOrderOnly,
                              .narrow = inputs_at<0, 1>,
                              .rounded = with_output<ConvolutionInputAttributes>,
                              .costly = true};
const OpDef kConvolutionWeight{.name = "convolution_weight",
                               .infer = infer_weight,
                               .cost = cost_of_weight,
                               .not_differentiable = kFirstOrderOnly,
                               .aliases = accumulates_if<ConvolutionWeightAttributes, 2>,
                               .narrow = inputs_at<0, 1>,
                               .costly = true};
const OpDef kPatches{.name = "patches",
                     .infer = infer_patches,
                     .cost = cost_per_element<0>,
                     .gradient = gradient_of_patches,
                     .either = inputs_at<0>,
                     .rounded = with_output<PatchAttributes>};
const OpDef kPatchesBackward{.name = "patches_backward",
                             .infer = infer_patches_backward,
                             .cost = cost_per_element<0>,
                             .not_differentiable = kFirstOrderOnly,
                             .either = inputs_at<0>,
                             .rounded = with_output<PatchBackwardAttributes>};

OpList convolution_ops() {
  return {{&kConvolution}, {&kConvolutionInput}, {&kConvolutionWeight}, {&kPatches}, {&kPatchesBackward}};
}

ValueId convolution(GraphBuilder& builder, ValueId x, ValueId weight, ValueId bias, ConvolutionAttributes attributes,
                    std::string name) {
  if (builder.shape(weight).rank() == 2) return patch_convolution(builder, x, weight, bias, attributes, std::move(name));
  attributes.bias = bias.valid();
  std::vector<ValueId> inputs{x, weight};
  if (bias.valid()) inputs.push_back(bias);
  return builder.add1(kConvolution, attributes, std::move(inputs), std::move(name));
}

}  // namespace plimsoll::ops
