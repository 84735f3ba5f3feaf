#include "device/cpu/gemm.h"
#include "ops/matmul/gemm_shape.h"

namespace plimsoll {
namespace {

KernelChoice choose(const KernelRequest& request) {
  const cpu::GemmPlan plan = cpu::plan_gemm(gemm_shape(request), request.threads, request.with_library);
  return {.implementation = plan.implementation, .scratch = plan.scratch, .primitives = plan.primitives};
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
