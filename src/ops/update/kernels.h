// Optimizer updates on the CPU: one fused pass over a flat range of n elements (the caller moves the pointers to a range's
// begin), with PyTorch's semantics. The gradient is multiplied by gradient_scale (the clip coefficient) on the way, then held
// within -clip_value and clip_value where that is not 0, and is not written.
#pragma once

#include <cstdint>

namespace plimsoll::cpu {

// What follows the parameter, where it is not null: average = first ? p : average + blend (p - average), with the updated p.
struct Average {
  float* numbers = nullptr;
  double blend = 1;
  bool first = false;
};

// AdamW (Loshchilov and Hutter, 2019): decoupled decay, epsilon outside the root. bias_correction1 is 1 - beta1^t, 2 likewise.
struct AdamWStep {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  double bias_correction1 = 1, bias_correction2 = 1, gradient_scale = 1, clip_value = 0;
};

// p *= 1 - lr weight_decay;  m += (1 - beta1) (g - m);  v = beta2 v + (1 - beta2) g^2;
// p -= lr / bias_correction1 * m / (sqrt(v) / sqrt(bias_correction2) + epsilon)
void adamw(std::int64_t n, float* p, float* m, float* v, const float* g, const AdamWStep& step, const Average& average = {});

// Lion (Chen et al., 2023).
struct LionStep {
  double lr = 1e-4, beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
  double gradient_scale = 1, clip_value = 0;
};

// p = (1 - lr weight_decay) p - lr sign(m + (1 - beta1) (g - m));  m += (1 - beta2) (g - m)
void lion(std::int64_t n, float* p, float* m, const float* g, const LionStep& step, const Average& average = {});

struct SgdStep {
  double lr = 1e-2, momentum = 0, weight_decay = 0;
  bool nesterov = false;
  bool first = false;  // the buffer is written, not read
  double gradient_scale = 1, clip_value = 0;
};

// d = g + weight_decay p;  buffer = first ? d : momentum buffer + d;  p -= lr (nesterov ? d + momentum buffer : buffer).
// Without a buffer (null) there is no momentum.
void sgd(std::int64_t n, float* p, float* buffer, const float* g, const SgdStep& step, const Average& average = {});

// min(1, limit / (norm + 1e-6)); 1 where the limit is 0. A norm that is NaN gives NaN.
double clip_coefficient(double norm, double limit);

}  // namespace plimsoll::cpu
