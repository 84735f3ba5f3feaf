// The gated product on the CPU: n elements, all of fp32, bf16 or fp16, computed in fp32 and rounded once. Outputs may be any of
// the inputs, but not each other. Nothing allocates, and the number of threads changes no bit.
#pragma once

#include <cstdint>

#include "device/cpu/elements.h"
#include "ops/gated/gated.h"

namespace plimsoll::cpu {

// out = act(gate) * up.
void gated_forward(std::int64_t n, ops::Activation activation, ConstElements gate, ConstElements up, Elements out);

// d_gate = d_out * up * act'(gate), d_up = d_out * act(gate). Gradients with null data are not made.
void gated_backward(std::int64_t n, ops::Activation activation, ConstElements d_out, ConstElements gate, ConstElements up,
                    Elements d_gate, Elements d_up);

}  // namespace plimsoll::cpu
