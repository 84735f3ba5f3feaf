#include "ops/matmul/cuda.h"

#include "device/cuda/cublas_gemm.h"
#include "ops/cuda_kernel.h"
#include "ops/elementwise/map.cuh"

namespace plimsoll {
namespace {

template <class T>
void cast_bias(std::int64_t n, const KernelCall& call, std::byte* to) {
  cuda::map(n, cuda::Same{}, call.stream, reinterpret_cast<T*>(to), call.in(2));
}

// The bias in the result's type, converted in the scratch if necessary; null without a bias.
const void* bias_of(const GemmShape& shape, const KernelCall& call) {
  if (!shape.bias) return nullptr;
  if (shape.result == DType::f32) return call.in(2);
  std::byte* narrowed = call.scratch + kGemmWorkspace.n;
  shape.result == DType::bf16 ? cast_bias<cuda::Bf16>(shape.n, call, narrowed) : cast_bias<F16>(shape.n, call, narrowed);
  return narrowed;
}

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  const GemmShape shape = gemm_shape(request);
  const cuda::Gemm gemm(shape, kGemmWorkspace);
  const auto run = [gemm, shape](const KernelCall& call) {
    gemm.run(call.stream, call.in<void>(0), call.in<void>(1), bias_of(shape, call), call.out<void>(0), call.scratch);
  };
  return make_kernel(run, gemm.algorithm());
}

}  // namespace

CudaKernels matmul_cuda_kernels() { return {{&ops::kMatmul, bind}}; }

}  // namespace plimsoll
