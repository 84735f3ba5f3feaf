#include "ops/cuda_kernel.h"
#include "ops/elementwise/map.cuh"
#include "ops/squared_error/squared_error.h"

namespace plimsoll {
namespace cuda {
namespace {

struct HalfSquare {
  __device__ float operator()(float prediction, float target) const {
    const float error = prediction - target;
    return error * error * 0.5f;
  }
};

struct ScaledError {
  const float* scale;
  __device__ float operator()(float prediction, float target) const { return (prediction - target) * *scale; }
};

}  // namespace
}  // namespace cuda

namespace {

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  return make_kernel([n = request.outputs[0].shape.elements()](const KernelCall& call) {
    cuda::map(n, cuda::HalfSquare{}, call.stream, call.out(0), call.in(0), call.in(1));
  });
}

std::unique_ptr<Kernel> bind_backward(const KernelRequest& request) {
  return make_kernel([n = request.outputs[0].shape.elements()](const KernelCall& call) {
    cuda::map(n, cuda::ScaledError{call.in(2)}, call.stream, call.out(0), call.in(0), call.in(1));
  });
}

}  // namespace

CudaKernels squared_error_cuda_kernels() { return {{&ops::kSquaredError, bind}, {&ops::kSquaredErrorBackward, bind_backward}}; }

}  // namespace plimsoll
