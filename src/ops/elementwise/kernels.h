// Elementwise kernels on the CPU: dense, n elements of fp32 unless stated otherwise. `out` may equal any input; otherwise buffers
// do not overlap. Nothing allocates, and the number of threads changes no bit.
#pragma once

#include <cstdint>

#include "device/cpu/elements.h"

namespace plimsoll::cpu {

void add(std::int64_t n, const float* a, const float* b, float* out);
void multiply(std::int64_t n, const float* a, const float* b, float* out);
void scale(std::int64_t n, const float* a, float factor, float* out);
void fill(std::int64_t n, float value, float* out);

// x is [rows], out [rows, n]: out[r, i] = factor * x[r]. `out` may not equal x.
void broadcast_last(std::int64_t rows, std::int64_t n, float factor, const float* x, float* out);

// Arrays of one type; bf16 and fp16 are computed in fp32 and rounded to nearest even. x of a backward ReLU may be the input or
// the output of forward.
void relu_forward(std::int64_t n, ConstElements x, Elements y);
void relu_backward(std::int64_t n, ConstElements dy, ConstElements x, Elements dx);
// GPT-2's GELU by tanh (Hendrycks and Gimpel, 2016): x/2 (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3), which is
// x * sigmoid(2u). The error is within 1e-6 of the result plus 1e-7 of |x| where the result vanishes.
void gelu_tanh_forward(std::int64_t n, ConstElements x, Elements y);
void gelu_tanh_backward(std::int64_t n, ConstElements dy, ConstElements x, Elements dx);
// The derivative of ReLU6 is 0 at 0 and at 6.
void relu6_forward(std::int64_t n, ConstElements x, Elements y);
void relu6_backward(std::int64_t n, ConstElements dy, ConstElements x, Elements dx);
void silu_forward(std::int64_t n, ConstElements x, Elements y);
void silu_backward(std::int64_t n, ConstElements dy, ConstElements x, Elements dx);
void gelu_erf_forward(std::int64_t n, ConstElements x, Elements y);
void gelu_erf_backward(std::int64_t n, ConstElements dy, ConstElements x, Elements dx);

}  // namespace plimsoll::cpu
