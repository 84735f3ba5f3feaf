// The instruction sets that the kernels of a process may use: those of the processor, or fewer, so that newer processors run the
// kernels for older ones.
#pragma once

#include <string_view>

namespace plimsoll::cpu {

// Limits our kernels and oneDNN in this process to "avx2" or "sse4"; other words are E-USAGE. Called before the first kernel.
// Without effect on a processor that has no better set.
void limit_instruction_set(std::string_view most);

// False if the limit is below AVX-512. True does not imply that the processor has AVX-512.
bool avx512_allowed();

// True if our kernels round a product and its sum once; those of SSE4 round twice.
bool fuses_multiply_add();

}  // namespace plimsoll::cpu
