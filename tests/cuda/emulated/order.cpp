// The order of the emulated streams: PLIMSOLL_EMULATED_ORDER, a seed of emulation::draw_order.
#include <cstdlib>

#include "device/cuda/emulation_streams.h"

namespace {

const bool drawn = [] {
  const char* seed = std::getenv("PLIMSOLL_EMULATED_ORDER");
  plimsoll::cuda::emulation::draw_order(seed == nullptr ? 0 : std::strtoull(seed, nullptr, 10));
  return true;
}();

}  // namespace
