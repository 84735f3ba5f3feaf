#include "device/cpu/few_rows.h"
#include "device/cpu/gemm.h"
#include "device/cpu/stored_gemm.h"
#include "ops/block_matmul/gemm_shape.h"
#include "ops/kernel.h"

namespace plimsoll {
namespace {

cpu::StoredMatrix matrix_of(const KernelRequest& request) {
  return {request.inputs[1].dtype, request.attributes->as<ops::BlockMatmulAttributes>().blocks};
}

// True if x and the matrix have one type, so that a plain product needs no conversion.
bool is_plain(const KernelRequest& request) { return request.inputs[0].dtype == request.inputs[1].dtype; }

bool has_few_rows(const KernelRequest& request) {
  return request.attributes->as<ops::BlockMatmulAttributes>().few_rows && cpu::has_few_rows(block_gemm_shape(request));
}

KernelChoice choose(const KernelRequest& request) {
  if (has_few_rows(request)) return {.implementation = cpu::few_rows_name(matrix_of(request))};
  const GemmShape shape = block_gemm_shape(request);
  const cpu::GemmPlan plan = is_plain(request)
                                 ? cpu::plan_gemm(shape, request.threads, request.with_library)
                                 : cpu::plan_stored_gemm(shape, matrix_of(request), request.threads, request.with_library);
  return {.implementation = plan.implementation, .scratch = plan.scratch, .primitives = plan.primitives};
}

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  const bool bias = request.attributes->as<ops::BlockMatmulAttributes>().bias;
  const GemmShape shape = block_gemm_shape(request);
  if (has_few_rows(request)) {
    return make_kernel([shape = cpu::FewRows(shape, matrix_of(request)), bias](const KernelCall& call) {
      cpu::multiply_few_rows(shape, call.in(0), call.in<std::byte>(1), bias ? call.in(2) : nullptr, call.out(0));
    });
  }
  const auto run_with = [bias](auto gemm) {
    return make_kernel([gemm = std::move(gemm), bias](const KernelCall& call) {
      gemm.run(call.in<void>(0), call.in<std::byte>(1), bias ? call.in(2) : nullptr, call.out<void>(0), call.scratch);
    });
  };
  if (is_plain(request)) return run_with(cpu::Gemm(shape, request.threads));
  return run_with(cpu::StoredGemm(shape, matrix_of(request), request.threads));
}

}  // namespace

CpuKernels block_matmul_cpu_kernels() { return {{&ops::kBlockMatmul, choose, bind}}; }

}  // namespace plimsoll
