// A GPU's kernels over the emulation.
#include "device/cuda/emulation.h"
#include "ops/cases/bound_case.h"
#include "ops/cuda_kernel.h"

namespace plimsoll::test {
namespace {

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  const CudaKernel* kernel = find_cuda_kernel(*request.op);
  return kernel == nullptr ? nullptr : kernel->bind(request);
}

}  // namespace

const Backend kCuda{"cuda", choose_cuda, bind, cuda_takes_ranges, true, cuda::emulation::reverse_turns};

}  // namespace plimsoll::test
