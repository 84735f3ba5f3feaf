// The instruction sets that the kernels of a process may use: those of the processor, or fewer of them, so that kernels for older
// processors run on newer ones.
#pragma once

#include <string_view>

namespace plimsoll::cpu {

// "avx2" or "sse4"; anything else is E-USAGE. Holds for our kernels and for oneDNN, in this process, and must come before the
// first of them. A processor that has no more than that loses nothing.
void limit_instruction_set(std::string_view most);

// False where the limit is below AVX-512; the processor itself may have less.
bool avx512_allowed();

// True: our kernels round a product and its sum once. Those of SSE4 round twice.
bool fuses_multiply_add();

}  // namespace plimsoll::cpu
