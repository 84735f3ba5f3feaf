#include <cmath>

#include "ops/batch_norm/batch_norm.h"
#include "ops/batch_norm/kernels.h"
#include "ops/kernel.h"

namespace plimsoll {
namespace {

// x as groups of samples; without groups all are one.
cpu::BatchNormShape shape_of(const ValueType& x, std::int64_t group = 0) {
  const std::int64_t batch = x.shape[0], channels = x.shape.last(), samples = group > 0 ? group : batch;
  return {batch / samples, samples, x.shape.elements() / (batch * channels), channels};
}

template <class A>
cpu::BatchNormTerms terms_of(const cpu::BatchNormShape& shape, const A& a) {
  return {shape, static_cast<float>(a.epsilon), a.activation, nullptr, nullptr, nullptr};
}

// The type of an operand, or none.
struct Operand {
  bool there = false;
  DType type = DType::f32;

  cpu::ConstElements in(const KernelCall& call, std::size_t i) const { return {there ? call.inputs[i] : nullptr, type}; }
  cpu::Elements out(const KernelCall& call, std::size_t i) const { return {there ? call.outputs[i] : nullptr, type}; }
};

Operand input(const KernelRequest& request, std::size_t i, bool there = true) {
  return there ? Operand{true, request.inputs[i].dtype} : Operand{};
}
Operand output(const KernelRequest& request, std::size_t i, bool there = true) {
  return there ? Operand{true, request.outputs[i].dtype} : Operand{};
}

KernelChoice choose(const KernelRequest& request) {
  const auto& a = request.attributes->as<ops::BatchNormAttributes>();
  return own_kernel(cpu::batch_norm_forward_scratch(shape_of(request.inputs[0], a.group)));
}

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  const auto& a = request.attributes->as<ops::BatchNormAttributes>();
  return make_kernel([terms = terms_of(shape_of(request.inputs[0], a.group), a), x = input(request, 0),
                      residual = input(request, 4, a.residual), y = output(request, 0)](const KernelCall& call) {
    cpu::BatchNormTerms of = terms;
    of.gamma = call.in(1), of.beta = call.in(2), of.sample_ids = call.in<std::uint32_t>(3);
    cpu::batch_norm_forward(of, x.in(call, 0), residual.in(call, 4), y.out(call, 0), call.out(1), call.scratch);
  });
}

std::unique_ptr<Kernel> bind_fixed(const KernelRequest& request) {
  const auto& a = request.attributes->as<ops::FixedNormAttributes>();
  return make_kernel([terms = terms_of(shape_of(request.inputs[0]), a), x = input(request, 0),
                      residual = input(request, 5, a.residual), y = output(request, 0)](const KernelCall& call) {
    cpu::BatchNormTerms of = terms;
    of.gamma = call.in(1), of.beta = call.in(2);
    cpu::fixed_norm_forward(of, x.in(call, 0), residual.in(call, 5), {call.in(3), call.in(4), 0}, y.out(call, 0));
  });
}

// The wide operands and the results of a backward op.
struct Gradients {
  ops::NormGradients made;
  Operand dy, x, residual, dx, dresidual;
  bool accumulate;

  template <class A>
  Gradients(const KernelRequest& request, const A& a)
      : made(a.made),
        dy(input(request, 0)),
        x(input(request, 1)),
        residual(input(request, 6, a.residual)),
        dx(output(request, 0, made.x)),
        dresidual(output(request, made.of_residual(), made.residual)),
        accumulate(made.accumulate && !request.overwrite) {}

  void run(const KernelCall& call, const cpu::BatchNormTerms& terms, const cpu::Moments& moments, bool fixed) const {
    const cpu::BatchNormGradients results{dx.out(call, 0), dresidual.out(call, made.of_residual()),
                                          made.gamma ? call.out(made.of_gamma()) : nullptr,
                                          made.beta ? call.out(made.of_beta()) : nullptr, accumulate};
    cpu::batch_norm_backward(terms, dy.in(call, 0), x.in(call, 1), residual.in(call, 6), moments, fixed, results, call.scratch);
  }
};

KernelChoice choose_backward(const KernelRequest& request) {
  const auto& a = request.attributes->as<ops::BatchNormBackwardAttributes>();
  return own_kernel(cpu::batch_norm_backward_scratch(shape_of(request.inputs[1], a.group), a.made.sums() > 0, a.made.x));
}

std::unique_ptr<Kernel> bind_backward(const KernelRequest& request) {
  const auto& a = request.attributes->as<ops::BatchNormBackwardAttributes>();
  return make_kernel(
      [terms = terms_of(shape_of(request.inputs[1], a.group), a), gradients = Gradients(request, a)](const KernelCall& call) {
        cpu::BatchNormTerms of = terms;
        of.gamma = call.in(3), of.beta = call.in(4), of.sample_ids = call.in<std::uint32_t>(5);
        const std::int64_t channels = of.shape.channels;
        gradients.run(call, of, {call.in(2), call.in(2) + channels, 2 * channels}, /*fixed=*/false);
      });
}

KernelChoice choose_fixed_backward(const KernelRequest& request) {
  const auto& a = request.attributes->as<ops::FixedNormBackwardAttributes>();
  return own_kernel(cpu::batch_norm_backward_scratch(shape_of(request.inputs[1]), a.made.sums() > 0, /*means=*/false));
}

std::unique_ptr<Kernel> bind_fixed_backward(const KernelRequest& request) {
  const auto& a = request.attributes->as<ops::FixedNormBackwardAttributes>();
  return make_kernel(
      [terms = terms_of(shape_of(request.inputs[1]), a), gradients = Gradients(request, a)](const KernelCall& call) {
        cpu::BatchNormTerms of = terms;
        of.gamma = call.in(4), of.beta = call.in(5);
        gradients.run(call, of, {call.in(2), call.in(3), 0}, /*fixed=*/true);
      });
}

std::unique_ptr<Kernel> bind_pool(const KernelRequest& request) {
  const auto& a = request.attributes->as<ops::PoolingAttributes>();
  const Shape& statistics = request.inputs[0].shape;
  return make_kernel([shape = cpu::BatchNormShape{statistics[0], a.group, a.values, statistics[2]},
                      add = !request.overwrite](const KernelCall& call) {
    cpu::pool_statistics(shape, call.in(0), call.in<std::uint32_t>(1), call.in(2), add, call.out<double>(0));
  });
}

std::unique_ptr<Kernel> bind_moving(const KernelRequest& request) {
  return make_kernel([channels = request.inputs[0].shape[0], guarded = request.inputs.size() > 3,
                      momentum = request.attributes->as<ops::PoolingAttributes>().momentum](const KernelCall& call) {
    if (guarded && !std::isfinite(*call.in(3))) return;
    cpu::move_statistics(channels, call.in<double>(2), momentum, call.out(0), call.out(1));
  });
}

std::unique_ptr<Kernel> bind_count(const KernelRequest& request) {
  return make_kernel([last = request.inputs[1].shape[0] - 1, guarded = request.inputs.size() > 2](const KernelCall& call) {
    if (guarded && !std::isfinite(*call.in(2))) return;
    *call.out<std::int64_t>(0) += call.in<double>(1)[last] > 0 ? 1 : 0;
  });
}

}  // namespace

CpuKernels batch_norm_cpu_kernels() {
  return {{&ops::kBatchNorm, choose, bind},
          {&ops::kBatchNormBackward, choose_backward, bind_backward},
          {&ops::kPoolStatistics, nullptr, bind_pool},
          {&ops::kMovingStatistics, nullptr, bind_moving},
          {&ops::kCountWindow, nullptr, bind_count},
          {&ops::kFixedNorm, nullptr, bind_fixed},
          {&ops::kFixedNormBackward, choose_fixed_backward, bind_fixed_backward}};
}

}  // namespace plimsoll
