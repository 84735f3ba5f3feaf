#include "ops/cuda_kernel.h"
#include "ops/dropout/dropout.h"
#include "ops/dropout/mask.cuh"

namespace plimsoll {
namespace cuda {
namespace {

constexpr int kThreads = 256;

// A thread takes the four elements of a group of words.
__global__ void __launch_bounds__(kThreads) dropout_kernel(std::int64_t batch, std::int64_t elements, DropoutRule rule,
                                                           const std::uint32_t* sample_ids, const float* x, float* y) {
  const std::int64_t groups = (elements + 3) / 4;
  for (std::int64_t i = thread_of_grid(); i < batch * groups; i += threads_of_grid()) {
    const std::int64_t row = i / groups, group = i % groups;
    const PhiloxWords words = rule.words(static_cast<std::uint64_t>(group), sample_ids[2 * row], sample_ids[2 * row + 1]);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (4 * group + e < elements) y[row * elements + 4 * group + e] = rule.factor(words[e]) * x[row * elements + 4 * group + e];
    }
  }
}

}  // namespace
}  // namespace cuda

namespace {

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  const auto& attributes = request.attributes->as<ops::DropoutAttributes>();
  const std::int64_t batch = request.inputs[0].shape[0], elements = request.inputs[0].shape.elements() / batch;
  return make_kernel([batch, elements, rule = cuda::DropoutRule(attributes.probability, attributes.key)](const KernelCall& call) {
    cuda::launch(cuda::dropout_kernel, cuda::grid_over(batch * ((elements + 3) / 4), cuda::kThreads, cuda::kThreads), call.stream,
                 batch, elements, rule, call.in<std::uint32_t>(1), call.in(0), call.out(0));
  });
}

}  // namespace

CudaKernels dropout_cuda_kernels() { return {{&ops::kDropout, bind}}; }

}  // namespace plimsoll
