// Change of dtype on the CPU between fp32, bf16 and fp16, rounding to nearest even. Overflow gives infinity, subnormals are kept,
// NaN stays NaN (quiet). Input and output do not overlap.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "device/cpu/elements.h"

namespace plimsoll::cpu {

void cast(std::int64_t n, ConstElements x, Elements y);

// Bytes of `elements` numbers as fp32, in scratch.
Bytes wide_bytes(std::int64_t elements);

}  // namespace plimsoll::cpu
