#include "ops/kernel.h"
#include "ops/rms_norm/kernels.h"
#include "ops/rms_norm/rms_norm.h"

namespace plimsoll {
namespace {

cpu::ConstElements in(const KernelCall& call, std::size_t input, DType type) { return {call.inputs[input], type}; }

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  const auto epsilon = static_cast<float>(request.attributes->as<ops::RmsNormAttributes>().epsilon);
  const std::int64_t rows = request.outputs[1].shape[0], width = request.inputs[1].shape[0];
  return make_kernel([=, x = request.inputs[0].dtype, y = request.outputs[0].dtype](const KernelCall& call) {
    cpu::rms_norm_forward(rows, width, epsilon, in(call, 0, x), call.in(1), {call.outputs[0], y}, call.out(1));
  });
}

// The first operands of both backward ops: dy, x and rstd.
struct Gradient {
  std::int64_t rows, width;
  DType dy, x, output;
  bool accumulate;

  explicit Gradient(const KernelRequest& request)
      : rows(request.inputs[2].shape[0]),
        width(request.inputs[1].shape.elements() / rows),
        dy(request.inputs[0].dtype),
        x(request.inputs[1].dtype),
        output(request.attributes->as<ops::RmsNormBackwardAttributes>().output),
        accumulate(accumulates<ops::RmsNormBackwardAttributes>(request)) {}

  void run(const KernelCall& call, const float* weight, std::byte* dx, float* dweight) const {
    cpu::rms_norm_backward(rows, width, in(call, 0, dy), in(call, 1, x), call.in(2), weight, output, {dx, dweight, accumulate},
                           call.scratch);
  }
};

KernelChoice choose_backward(const KernelRequest& request) {
  const Gradient g(request);
  const bool weight = request.attributes->as<ops::RmsNormBackwardAttributes>().weight;
  return own_kernel(weight ? cpu::rms_norm_backward_scratch(g.rows, g.width) : Bytes{});
}

std::unique_ptr<Kernel> bind_backward(const KernelRequest& request) {
  const bool weight = request.attributes->as<ops::RmsNormBackwardAttributes>().weight;
  return make_kernel([g = Gradient(request), weight](const KernelCall& call) {
    g.run(call, call.in(3), call.outputs[0], weight ? call.out(1) : nullptr);
  });
}

std::unique_ptr<Kernel> bind_weight(const KernelRequest& request) {
  return make_kernel([g = Gradient(request)](const KernelCall& call) { g.run(call, nullptr, nullptr, call.out(0)); });
}

}  // namespace

CpuKernels rms_norm_cpu_kernels() {
  return {{&ops::kRmsNorm, nullptr, bind},
          {&ops::kRmsNormBackward, choose_backward, bind_backward},
          {&ops::kRmsNormWeightGradient, choose_backward, bind_weight}};
}

}  // namespace plimsoll
