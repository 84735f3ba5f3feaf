// A GPU's kernels over the emulation.
#include "device/cuda/emulation.h"
#include "device/cuda/emulation_products.h"
#include "ops/cases/bound_case.h"
#include "ops/cuda_kernel.h"

namespace plimsoll::test {
namespace {

template <bool kTogether>
void set_emulation(bool reversed) {
  cuda::emulation::reverse_turns(reversed);
  cuda::emulation::multiply_together(kTogether);
}

}  // namespace

const Backend kCuda{"cuda", choose_cuda, bind_cuda, cuda_takes_ranges, true, set_emulation<true>},
    kCudaMma{"cuda by mma", choose_cuda, bind_cuda, cuda_takes_ranges, true, set_emulation<false>};

}  // namespace plimsoll::test
