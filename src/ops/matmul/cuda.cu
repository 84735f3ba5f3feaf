#include "device/cuda/cublas_gemm.h"
#include "ops/cuda_kernel.h"
#include "ops/matmul/bias.cuh"
#include "ops/matmul/cuda.h"

namespace plimsoll {
namespace {

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  const GemmShape shape = gemm_shape(request);
  const cuda::Gemm gemm(shape, kGemmWorkspace);
  const auto run = [gemm, shape](const KernelCall& call) {
    gemm.run(call.stream, call.in<void>(0), call.in<void>(1), cuda::bias_of_product(shape, call), call.out<void>(0),
             call.scratch);
  };
  return make_kernel(run, gemm.algorithm());
}

}  // namespace

CudaKernels matmul_cuda_kernels() { return {{&ops::kMatmul, bind}}; }

}  // namespace plimsoll
