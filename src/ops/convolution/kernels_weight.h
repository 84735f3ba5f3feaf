// The gradient of a convolution's weights: dw[ky, kx, c, o] = the sum over all pixels of dy of x[its source at (ky, kx), c]
// dy[o].
#pragma once

#include "ops/convolution/kernels.h"

namespace plimsoll::cpu {

Bytes weight_gradient_scratch(const ConvolutionShape& shape, int threads);
// Adds to dw [kernel_h, kernel_w, channels / groups, outputs], or with `overwrite` writes it.
void weight_gradient(const ConvolutionShape& shape, int threads, ConstElements x, ConstElements dy, bool overwrite, float* dw,
                     std::byte* scratch);

// The same for a convolution of single channels.
Bytes depthwise_weight_scratch(const ConvolutionShape& shape);
void depthwise_weight_gradient(const ConvolutionShape& shape, ConstElements x, ConstElements dy, bool overwrite, float* dw,
                               std::byte* scratch);

// out [n] = the sum of `parts` arrays [n], one after another, added to `out` unless `overwrite`.
void add_parts(std::int64_t n, std::int64_t parts, const float* from, bool overwrite, float* out);

}  // namespace plimsoll::cpu
