// Optimizer updates on the CPU: one fused pass over a flat range of n elements (pointers are at the range's begin), with
// PyTorch's semantics. The gradient is multiplied by gradient_scale (the clip coefficient), then limited to [-clip_value,
// clip_value] if that is not 0; its memory does not change.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "device/cpu/elements.h"

namespace plimsoll::cpu {

// A parameter or a state: fp32, bf16, or, for states, codes of 8 bits in blocks of kCodedBlock elements, each with a scale
// (device/cpu/coded-inl.h). Gradients are fp32 or bf16.
struct StateNumbers : Elements {
  using Elements::Elements;
  StateNumbers(std::nullptr_t) : Elements(nullptr, DType::f32) {}  // NOLINT
  StateNumbers(std::uint8_t* codes, float* block_scales)
      : Elements(reinterpret_cast<std::byte*>(codes), DType::u8), scales(block_scales) {}
  bool coded() const { return type == DType::u8; }
  float* scales = nullptr;
};

// The noise that rounds bf16 parameters, bf16 states and 8-bit states to one of their two neighbours, with the fp32 result as the
// mean. Element i draws its bits from word i % 4 of philox4x32(key, {i / 4 low, i / 4 high, update low, high}). Narrow numbers
// take 16 bits in turn, the parameter first. A third number, or a parameter with 8-bit states, takes its bits from another
// stream, which has the highest bit of the counter set. Without a key (zeros) numbers are rounded to the nearest, ties away from
// zero.
struct StochasticRounding {
  std::array<std::uint32_t, 2> key{};
  std::uint64_t update = 0;
  std::int64_t first = 0;  // first element of the range: a multiple of 4, with coded states of kCodedBlock
};

// An average of the parameter; null: none. average = first ? p : average + blend (p - average), with the updated p.
struct Average {
  float* numbers = nullptr;
  double blend = 1;
  bool first = false;
};

// Sums of squares of a parameter before an update, and of its change before rounding.
struct Change {
  double before = 0, step = 0;
};

// An update writes the Change of each tile of n elements to `tiles`, if not null. sum_of returns `before` plus all of them.
Bytes change_scratch(std::int64_t n);
Change sum_of(const Change* tiles, std::int64_t n, Change before);

// AdamW (Loshchilov and Hutter, 2019): decoupled decay, epsilon outside the root. bias_correction1 is 1 - beta1^t, 2 likewise.
struct AdamWStep {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  double bias_correction1 = 1, bias_correction2 = 1, gradient_scale = 1, clip_value = 0;
};

// p *= 1 - lr weight_decay;  m += (1 - beta1) (g - m);  v = beta2 v + (1 - beta2) g^2;
// p -= lr / bias_correction1 * m / (sqrt(v) / sqrt(bias_correction2) + epsilon)
void adamw(std::int64_t n, StateNumbers p, StateNumbers m, StateNumbers v, ConstElements g, const AdamWStep& step,
           const Average& average = {}, const StochasticRounding& rounding = {}, Change* tiles = nullptr);

// Lion (Chen et al., 2023).
struct LionStep {
  double lr = 1e-4, beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
  double gradient_scale = 1, clip_value = 0;
};

// p = (1 - lr weight_decay) p - lr sign(m + (1 - beta1) (g - m));  m += (1 - beta2) (g - m)
void lion(std::int64_t n, StateNumbers p, StateNumbers m, ConstElements g, const LionStep& step, const Average& average = {},
          const StochasticRounding& rounding = {}, Change* tiles = nullptr);

struct SgdStep {
  double lr = 1e-2, momentum = 0, weight_decay = 0;
  bool nesterov = false;
  bool first = false;  // the first update writes the buffer without reading it
  double gradient_scale = 1, clip_value = 0;
};

// d = g + weight_decay p;  buffer = first ? d : momentum buffer + d;  p -= lr (nesterov ? d + momentum buffer : buffer).
// Without a buffer (null) there is no momentum.
void sgd(std::int64_t n, StateNumbers p, StateNumbers buffer, ConstElements g, const SgdStep& step, const Average& average = {},
         const StochasticRounding& rounding = {}, Change* tiles = nullptr);

// into = g, or with `add` into + g, rounded to bf16 with the noise of an update's first narrow number.
void accumulate_rounded(std::int64_t n, const float* g, bool add, std::uint16_t* into, const StochasticRounding& rounding);

// min(1, limit / (norm + 1e-6)); 1 if the limit is 0. A norm that is not finite gives NaN.
double clip_coefficient(double norm, double limit);

}  // namespace plimsoll::cpu
