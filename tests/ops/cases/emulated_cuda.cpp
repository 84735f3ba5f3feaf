// A GPU's kernels over the emulation.
#include "device/cuda/emulation.h"
#include "ops/cases/bound_case.h"
#include "ops/cuda_kernel.h"

namespace plimsoll::test {
const Backend kCuda{"cuda", choose_cuda, bind_cuda, cuda_takes_ranges, true, cuda::emulation::reverse_turns};

}  // namespace plimsoll::test
