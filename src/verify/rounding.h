// Statistics of the rounding noise in 16- or 8-bit optimizer state over many updates: moments that only decay, mostly by less
// than one unit in the last place, compared with fp64.
#pragma once

#include "tensor/dtype.h"

namespace plimsoll::verification {

struct RoundingError {
  double bias = 0;    // mean relative error, in theoretical standard errors
  double spread = 0;  // root mean square relative error, as a multiple of the theoretical one
};

// The errors relative to theory: independent noise adds up in squares. With `one_seed` all updates draw the same noise, a
// deliberate error. `decay`: in (0, 1). `state`: bf16, or u8 for blocks of 8 bits; fp32 counts as bf16.
RoundingError rounding_error(DType state, double decay, bool one_seed);

// The same for gradients summed in bf16: a thousand micro-steps, each below one unit in the last place. With `one_seed` all of
// them draw the same noise.
RoundingError sum_error(bool one_seed);

}  // namespace plimsoll::verification
