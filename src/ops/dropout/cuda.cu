#include "ops/check.h"
#include "ops/cuda_kernel.h"
#include "ops/dropout/dropout.h"
#include "ops/dropout/mask.cuh"

namespace plimsoll {
namespace cuda {
namespace {

constexpr int kThreads = 256;

// A thread takes the elements of a row that share a group of words. Element i of a token counts as element position * elements +
// i of its sample. `kWhole`: rows are multiples of four elements, so that groups begin with a row.
template <bool kWhole>
__global__ void __launch_bounds__(kThreads) dropout_kernel(std::int64_t rows, std::int64_t elements, std::int64_t groups,
                                                           DropoutRule rule, SampleIds ids, const float* x, float* y) {
  for (std::int64_t i = thread_of_grid(); i < rows * groups; i += threads_of_grid()) {
    const std::int64_t row = i / groups, group = i % groups;
    const RowNoise noise = ids.of(row);
    const std::uint64_t begin = noise.position * static_cast<std::uint64_t>(elements);
    const PhiloxWords words = rule.words(begin / 4 + static_cast<std::uint64_t>(group), noise.epoch, noise.sample);
    if constexpr (kWhole) {
      Pack<float> four = load_pack(x + 4 * i);
#pragma unroll
      for (int e = 0; e < 4; ++e) four.at[e] *= rule.factor(words[e]);
      store_pack(four, y + 4 * i);
    } else {
      const std::int64_t first = 4 * group - static_cast<std::int64_t>(begin % 4);  // the element of the first word
      for (int e = 0; e < 4; ++e) {
        if (first + e < 0 || first + e >= elements) continue;
        const std::int64_t at = row * elements + first + e;
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
  const Shape& x = request.inputs[0].shape;
  const bool tokens = ops::name_tokens(request.inputs[1].shape);
  const std::int64_t rows = tokens ? x[0] * x[1] : x[0], elements = x.elements() / rows;
  const bool whole = elements % 4 == 0;
  const std::int64_t groups = whole ? elements / 4 : (elements + 6) / 4;  // that a row touches at most
  return make_kernel([=, rule = cuda::DropoutRule(attributes.probability, attributes.key)](const KernelCall& call) {
    const auto kernel = whole ? cuda::dropout_kernel<true> : cuda::dropout_kernel<false>;
    cuda::launch(kernel, cuda::grid_over(rows * groups, cuda::kThreads, cuda::kThreads), call.stream, rows, elements, groups,
                 rule, cuda::SampleIds{call.in<std::uint32_t>(1), tokens}, call.in(0), call.out(0));
  });
}

}  // namespace

CudaKernels dropout_cuda_kernels() { return {{&ops::kDropout, bind}}; }

}  // namespace plimsoll
