// Operands of 16 bits as fp32, and results back, for products that nothing multiplies as they are. All threads work on them.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "tensor/dtype.h"

namespace plimsoll::cpu {

// Bytes of `elements` numbers as fp32.
Bytes wide_bytes(std::int64_t elements);
void widen(DType from, std::int64_t n, const void* x, float* y);
// To nearest even.
void narrow(DType to, std::int64_t n, const float* x, void* y);

}  // namespace plimsoll::cpu
