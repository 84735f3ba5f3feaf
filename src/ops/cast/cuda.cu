#include "ops/cast/cast.h"
#include "ops/cuda_kernel.h"
#include "ops/elementwise/map.cuh"

namespace plimsoll {
namespace {

template <class From, class To>
std::unique_ptr<Kernel> bind_between(std::int64_t n) {
  return make_kernel([n](const KernelCall& call) { cuda::map(n, cuda::Same{}, call.stream, call.out<To>(0), call.in<From>(0)); });
}

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  const DType from = request.inputs[0].dtype, to = request.outputs[0].dtype;
  const std::int64_t n = request.inputs[0].shape.elements();
  if (from == DType::bf16) return bind_between<cuda::Bf16, float>(n);
  if (from == DType::f16) return bind_between<F16, float>(n);
  return to == DType::bf16 ? bind_between<float, cuda::Bf16>(n) : bind_between<float, F16>(n);
}

}  // namespace

CudaKernels cast_cuda_kernels() { return {{&ops::kCast, bind}}; }

}  // namespace plimsoll
