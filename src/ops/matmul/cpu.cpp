#include "device/cpu/gemm.h"
#include "ops/kernel.h"
#include "ops/matmul/matmul.h"

namespace plimsoll {
namespace {

cpu::GemmShape gemm_shape(const KernelRequest& request) {
  const auto& attributes = request.attributes->as<ops::MatmulAttributes>();
  const ops::MatmulExtents e = ops::matmul_extents(attributes, request.inputs);
  return {e.batch,
          e.m,
          e.n,
          e.k,
          attributes.transpose_a,
          attributes.transpose_b,
          attributes.bias,
          accumulates<ops::MatmulAttributes>(request),
          request.inputs[0].dtype,
          request.outputs[0].dtype};
}

KernelChoice choose(const KernelRequest& request) {
  const cpu::GemmPlan plan = cpu::plan_gemm(gemm_shape(request), request.threads, request.with_library);
  KernelChoice choice;
  choice.implementation = plan.implementation;
  choice.scratch = plan.scratch;
  choice.primitives = plan.primitives;
  return choice;
}

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  const bool bias = request.attributes->as<ops::MatmulAttributes>().bias;
  return make_kernel([gemm = cpu::Gemm(gemm_shape(request), request.threads), bias](const KernelCall& call) {
    gemm.run(call.in<void>(0), call.in<void>(1), bias ? call.in(2) : nullptr, call.out<void>(0), call.scratch);
  });
}

}  // namespace

CpuKernels matmul_cpu_kernels() { return {{&ops::kMatmul, choose, bind}}; }

}  // namespace plimsoll
