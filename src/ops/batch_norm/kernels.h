// Batch normalisation on the CPU (ops/batch_norm/batch_norm.h). Buffers are dense; the caller owns all. Rows are summed in fp64,
// in pieces and in an order that the shape fixes, so the number of threads changes no bit. The groups of a call are independent
// of each other, and the sums of gamma and beta are added group by group in fp32: several calls with fewer groups give the same
// bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "device/cpu/elements.h"
#include "ops/batch_norm/batch_norm.h"

namespace plimsoll::cpu {

// x is [groups, samples, values, channels].
struct BatchNormShape {
  std::int64_t groups, samples, values, channels;
};

// The constant operands of a call.
struct BatchNormTerms {
  BatchNormShape shape;
  float epsilon;
  ops::NormActivation activation;
  const float *gamma, *beta;        // [channels]
  const std::uint32_t* sample_ids;  // [groups, samples, 2]; null: no row is absent
};

// The mean and variance of each group, `stride` elements apart; 0: one for all.
struct Moments {
  const float *mean, *variance;
  std::int64_t stride;
};

// Operands of the shape of x, fp32 or of one type of 16 bits. The data of a residual that is not there are null.
// y may be x or the residual. `statistics` [groups, 2, channels] are written.
Bytes batch_norm_forward_scratch(const BatchNormShape& shape);
void batch_norm_forward(const BatchNormTerms& terms, ConstElements x, ConstElements residual, Elements y, float* statistics,
                        std::byte* scratch);
void fixed_norm_forward(const BatchNormTerms& terms, ConstElements x, ConstElements residual, const Moments& moments, Elements y);

// Null: not made. dx may be dy, x or the residual; dresidual may be dy or the residual.
struct BatchNormGradients {
  Elements dx, dresidual;
  float *dgamma, *dbeta;
  bool accumulate;  // dgamma and dbeta are added to instead of written
};

// `sums`: dgamma or dbeta is made. `means`: dx is made, and the moments depend on x.
Bytes batch_norm_backward_scratch(const BatchNormShape& shape, bool sums, bool means);
// `fixed`: the moments do not depend on x.
void batch_norm_backward(const BatchNormTerms& terms, ConstElements dy, ConstElements x, ConstElements residual,
                         const Moments& moments, bool fixed, const BatchNormGradients& made, std::byte* scratch);

// sums [2 channels + 1] += n (m - mean), n (v + (m - mean)^2) and n of each group, in their order; without `add` they begin as
// zeros.
void pool_statistics(const BatchNormShape& shape, const float* statistics, const std::uint32_t* sample_ids, const float* mean,
                     bool add, double* sums);
// Blends the mean and the unbiased variance of the sums into the running ones.
void move_statistics(std::int64_t channels, const double* sums, double momentum, float* mean, float* variance);

}  // namespace plimsoll::cpu
