// Layer norm over the last axis on the CPU (Ba et al., 2016): y = (x - mean) * rstd * gamma + beta with rstd = 1 / sqrt(var +
// epsilon). Buffers are fp32 unless stated otherwise, dense, row-major, x, y, dy, dx [rows, width], gamma and beta [width], mean
// and rstd [rows]; the caller owns all. Rows are reduced in tiles fixed by the shape, so results do not depend on the number of
// threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "device/cpu/elements.h"

namespace plimsoll::cpu {

// The variance comes from a second pass over the row. y is fp32, bf16 or fp16, rounded to nearest even; it may be x.
void layer_norm_forward(std::int64_t rows, std::int64_t width, float epsilon, const float* x, const float* gamma,
                        const float* beta, Elements y, float* mean, float* rstd);

// Bytes for the partial sums of `sums` of dgamma and dbeta: 4 * width bytes (padded to cache lines) for each and for each tile of
// 64 rows.
Bytes layer_norm_backward_scratch(std::int64_t rows, std::int64_t width, std::int64_t sums = 2);

// dgamma and dbeta are overwritten or, with accumulate_dgamma_dbeta, added to. dx may be dy. Null gradients are not made; dbeta
// alone is not supported.
void layer_norm_backward(std::int64_t rows, std::int64_t width, const float* dy, const float* x, const float* mean,
                         const float* rstd, const float* gamma, float* dx, float* dgamma, float* dbeta,
                         bool accumulate_dgamma_dbeta, std::byte* scratch);

}  // namespace plimsoll::cpu
