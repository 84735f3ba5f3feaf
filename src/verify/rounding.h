// The noise by which optimizer state of 16 or 8 bits is rounded, over many updates and not only over many elements: moments that
// only decay, mostly by less than the distance of their neighbours, against what they would be in fp64.
#pragma once

#include "tensor/dtype.h"

namespace plimsoll::verification {

struct RoundingError {
  double bias = 0;    // mean relative error, in its own standard error by the theory
  double spread = 0;  // root of the mean squared relative error, as a multiple of the theory's
};

// What theory says of independent noise: errors of the single updates add up in squares. With `one_seed`, all updates draw the
// same noise, which is what must not be. `decay`: in (0, 1). `state`: bf16, or u8 for blocks of 8 bits; of fp32, bf16.
RoundingError rounding_error(DType state, double decay, bool one_seed);

// The same of gradients that are summed in bf16: a thousand micro-steps, each of which adds less than the distance of two
// neighbours. With `one_seed` all of them draw the same noise.
RoundingError sum_error(bool one_seed);

}  // namespace plimsoll::verification
