#include "device/cpu/few_rows.h"
#include "device/cpu/gemm.h"
#include "ops/matmul/gemm_shape.h"

namespace plimsoll {
namespace {

bool has_few_rows(const KernelRequest& request) {
  return request.attributes->as<ops::MatmulAttributes>().few_rows && cpu::has_few_rows(gemm_shape(request));
}

KernelChoice choose(const KernelRequest& request) {
  if (has_few_rows(request)) return {.implementation = cpu::few_rows_name({})};
  const cpu::GemmPlan plan = cpu::plan_gemm(gemm_shape(request), request.threads, request.with_library);
  return {.implementation = plan.implementation, .scratch = plan.scratch, .primitives = plan.primitives};
}

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  const bool bias = request.attributes->as<ops::MatmulAttributes>().bias;
  if (has_few_rows(request)) {
    return make_kernel([shape = cpu::FewRows(gemm_shape(request), {}), bias](const KernelCall& call) {
      cpu::multiply_few_rows(shape, call.in(0), call.in<std::byte>(1), bias ? call.in(2) : nullptr, call.out(0));
    });
  }
  return make_kernel([gemm = cpu::Gemm(gemm_shape(request), request.threads), bias](const KernelCall& call) {
    gemm.run(call.in<void>(0), call.in<void>(1), bias ? call.in(2) : nullptr, call.out<void>(0), call.scratch);
  });
}

}  // namespace

CpuKernels matmul_cpu_kernels() { return {{&ops::kMatmul, choose, bind}}; }

}  // namespace plimsoll
