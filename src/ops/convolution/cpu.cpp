#include <memory>
#include <utility>

#include "device/cpu/gemm.h"
#include "ops/convolution/convolution.h"
#include "ops/convolution/kernels.h"
#include "ops/convolution/kernels_gathered.h"
#include "ops/convolution/kernels_strips.h"
#include "ops/convolution/kernels_weight.h"
#include "ops/kernel.h"

namespace plimsoll {
namespace {

cpu::ConvolutionShape shape_of(const Shape& x, const Shape& w, const ops::Window& window, std::int64_t groups) {
  return {.batch = x[0],
          .height = x[1],
          .width = x[2],
          .channels = x[3],
          .kernel_h = w[0],
          .kernel_w = w[1],
          .outputs = w[3],
          .window = window,
          .groups = groups};
}

cpu::ConvolutionShape forward_shape(const KernelRequest& request) {
  const auto& a = request.attributes->as<ops::ConvolutionAttributes>();
  cpu::ConvolutionShape shape = shape_of(request.inputs[0].shape, request.inputs[1].shape, a.window, a.groups);
  shape.operands = request.inputs[0].dtype, shape.result = a.output, shape.bias = a.bias;
  return shape;
}

cpu::ConvolutionShape input_shape(const KernelRequest& request) {
  const auto& a = request.attributes->as<ops::ConvolutionInputAttributes>();
  cpu::ConvolutionShape shape = shape_of(request.outputs[0].shape, request.inputs[1].shape, a.window, a.groups);
  shape.operands = request.inputs[0].dtype, shape.result = a.output;
  return shape;
}

cpu::ConvolutionShape weight_shape(const KernelRequest& request) {
  const auto& a = request.attributes->as<ops::ConvolutionWeightAttributes>();
  cpu::ConvolutionShape shape = shape_of(request.inputs[0].shape, request.outputs[0].shape, a.window, a.groups);
  shape.operands = request.inputs[0].dtype;
  return shape;
}

// The products of a 1 x 1 convolution: pixels are rows.
GemmShape forward_product(const cpu::ConvolutionShape& s) {
  return {.m = s.batch * s.height * s.width,
          .n = s.outputs,
          .k = s.channels,
          .bias = s.bias,
          .operands = s.operands,
          .result = s.result};
}
GemmShape input_product(const cpu::ConvolutionShape& s) {
  return {.m = s.batch * s.height * s.width,
          .n = s.channels,
          .k = s.outputs,
          .transpose_b = true,
          .operands = s.operands,
          .result = s.result};
}
GemmShape weight_product(const cpu::ConvolutionShape& s, bool accumulate) {
  return {.m = s.channels,
          .n = s.outputs,
          .k = s.batch * s.height * s.width,
          .transpose_a = true,
          .accumulate = accumulate,
          .operands = s.operands};
}

KernelChoice choice_of(const cpu::GemmPlan& plan) {
  KernelChoice choice;
  choice.implementation = plan.implementation;
  choice.scratch = plan.scratch;
  choice.primitives = plan.primitives;
  return choice;
}

KernelChoice choice_of(const GemmShape& shape, const KernelRequest& request) {
  return choice_of(cpu::plan_gemm(shape, request.threads, request.with_library));
}

std::unique_ptr<Kernel> bind_product(const GemmShape& shape, int threads) {
  return make_kernel([gemm = cpu::Gemm(shape, threads), bias = shape.bias](const KernelCall& call) {
    gemm.run(call.in<void>(0), call.in<void>(1), bias ? call.in(2) : nullptr, call.out<void>(0), call.scratch);
  });
}

KernelChoice choose_gathered(const cpu::Gathered& product, const KernelRequest& request) {
  if (product.shape.depthwise()) return own_kernel(cpu::depthwise_scratch(product));
  if (request.with_library) {
    if (const auto plan = cpu::plan_strips(product, request.threads)) return choice_of(*plan);
  }
  return own_kernel(cpu::gathered_scratch(product, request.threads));
}

std::unique_ptr<Kernel> bind_gathered(cpu::Gathered product, int threads) {
  if (!product.shape.depthwise() && cpu::plan_strips(product, threads)) {
    const bool bias = product.shape.bias;
    return make_kernel([strips = cpu::StripConvolution(std::move(product), threads), bias](const KernelCall& call) {
      strips.run(call.inputs[0], call.inputs[1], bias ? call.in(2) : nullptr, call.outputs[0], call.scratch);
    });
  }
  return make_kernel([product = std::move(product), threads](const KernelCall& call) {
    const cpu::ConvolutionShape& shape = product.shape;
    const cpu::ConstElements source{call.inputs[0], shape.operands}, weight{call.inputs[1], shape.operands};
    const cpu::Elements target{call.outputs[0], shape.result};
    const float* bias = shape.bias ? call.in(2) : nullptr;
    if (shape.depthwise()) return cpu::run_depthwise(product, source, weight, bias, target, call.scratch);
    cpu::run_gathered(product, threads, source, weight, bias, target, call.scratch);
  });
}

KernelChoice choose(const KernelRequest& request) {
  const cpu::ConvolutionShape shape = forward_shape(request);
  if (shape.pointwise()) return choice_of(forward_product(shape), request);
  return choose_gathered(cpu::gathered_forward(shape), request);
}

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  const cpu::ConvolutionShape shape = forward_shape(request);
  if (shape.pointwise()) return bind_product(forward_product(shape), request.threads);
  return bind_gathered(cpu::gathered_forward(shape), request.threads);
}

KernelChoice choose_input(const KernelRequest& request) {
  const cpu::ConvolutionShape shape = input_shape(request);
  if (shape.pointwise()) return choice_of(input_product(shape), request);
  return choose_gathered(cpu::gathered_gradient(shape), request);
}

std::unique_ptr<Kernel> bind_input(const KernelRequest& request) {
  const cpu::ConvolutionShape shape = input_shape(request);
  if (shape.pointwise()) return bind_product(input_product(shape), request.threads);
  return bind_gathered(cpu::gathered_gradient(shape), request.threads);
}

KernelChoice choose_weight(const KernelRequest& request) {
  const cpu::ConvolutionShape shape = weight_shape(request);
  const bool accumulate = accumulates<ops::ConvolutionWeightAttributes>(request);
  if (shape.pointwise()) return choice_of(weight_product(shape, accumulate), request);
  if (shape.depthwise()) return own_kernel(cpu::depthwise_weight_scratch(shape));
  if (request.with_library) {
    if (const auto plan = cpu::plan_weight_strips(shape, request.threads)) return choice_of(*plan);
  }
  return own_kernel(cpu::weight_gradient_scratch(shape, request.threads));
}

std::unique_ptr<Kernel> bind_weight(const KernelRequest& request) {
  const cpu::ConvolutionShape shape = weight_shape(request);
  const bool accumulate = accumulates<ops::ConvolutionWeightAttributes>(request);
  if (shape.pointwise()) return bind_product(weight_product(shape, accumulate), request.threads);
  if (!shape.depthwise() && cpu::plan_weight_strips(shape, request.threads)) {
    return make_kernel([strips = cpu::StripWeights(shape, request.threads), accumulate](const KernelCall& call) {
      strips.run(call.inputs[0], call.inputs[1], !accumulate, call.out(0), call.scratch);
    });
  }
  return make_kernel([shape, threads = request.threads, accumulate](const KernelCall& call) {
    const cpu::ConstElements x{call.inputs[0], shape.operands}, dy{call.inputs[1], shape.operands};
    if (shape.depthwise()) return cpu::depthwise_weight_gradient(shape, x, dy, !accumulate, call.out(0), call.scratch);
    cpu::weight_gradient(shape, threads, x, dy, !accumulate, call.out(0), call.scratch);
  });
}

cpu::PatchShape patch_shape(const Shape& image, std::int64_t height, std::int64_t width) {
  return {image[0], image[1], image[2], image[3], height, width};
}

std::unique_ptr<Kernel> bind_patches(const KernelRequest& request) {
  const auto& a = request.attributes->as<ops::PatchAttributes>();
  const cpu::PatchShape shape = patch_shape(request.inputs[0].shape, a.height, a.width);
  return make_kernel([shape, from = request.inputs[0].dtype, to = a.output](const KernelCall& call) {
    cpu::cut_patches(shape, {call.inputs[0], from}, {call.outputs[0], to});
  });
}

std::unique_ptr<Kernel> bind_patches_backward(const KernelRequest& request) {
  const auto& a = request.attributes->as<ops::PatchBackwardAttributes>();
  const cpu::PatchShape shape = patch_shape(request.outputs[0].shape, a.height, a.width);
  return make_kernel([shape, from = request.inputs[0].dtype, to = a.output](const KernelCall& call) {
    cpu::join_patches(shape, {call.inputs[0], from}, {call.outputs[0], to});
  });
}

}  // namespace

CpuKernels convolution_cpu_kernels() {
  return {{&ops::kConvolution, choose, bind},
          {&ops::kConvolutionInput, choose_input, bind_input},
          {&ops::kConvolutionWeight, choose_weight, bind_weight},
          {&ops::kPatches, nullptr, bind_patches},
          {&ops::kPatchesBackward, nullptr, bind_patches_backward}};
}

}  // namespace plimsoll
