#include "ops/check.h"
#include "ops/cuda_kernel.h"
#include "ops/dropout/dropout.h"
#include "ops/dropout/mask.cuh"

namespace plimsoll {
namespace cuda {
namespace {

constexpr int kThreads = 256;

// A thread takes the four elements of a group of words. `kWhole`: samples are multiples of four elements.
template <bool kWhole>
__global__ void __launch_bounds__(kThreads) dropout_kernel(std::int64_t batch, std::int64_t elements, DropoutRule rule,
                                                           const std::uint32_t* sample_ids, const float* x, float* y) {
  const std::int64_t groups = (elements + 3) / 4;
  for (std::int64_t i = thread_of_grid(); i < batch * groups; i += threads_of_grid()) {
    const std::int64_t row = i / groups, group = i % groups;
    const PhiloxWords words = rule.words(static_cast<std::uint64_t>(group), sample_ids[2 * row], sample_ids[2 * row + 1]);
    if constexpr (kWhole) {
      Pack<float> four = load_pack(x + 4 * i);
#pragma unroll
      for (int e = 0; e < 4; ++e) four.at[e] *= rule.factor(words[e]);
      store_pack(four, y + 4 * i);
    } else {
      for (int e = 0; e < 4 && 4 * group + e < elements; ++e) {
        const std::int64_t at = row * elements + 4 * group + e;
        y[at] = rule.factor(word_of(words, static_cast<std::uint32_t>(e))) * x[at];
      }
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
    const auto kernel = elements % 4 == 0 ? cuda::dropout_kernel<true> : cuda::dropout_kernel<false>;
    cuda::launch(kernel, cuda::grid_over(batch * ((elements + 3) / 4), cuda::kThreads, cuda::kThreads), call.stream, batch,
                 elements, rule, call.in<std::uint32_t>(1), call.in(0), call.out(0));
  });
}

}  // namespace

CudaKernels dropout_cuda_kernels() { return {{&ops::kDropout, bind}}; }

}  // namespace plimsoll
