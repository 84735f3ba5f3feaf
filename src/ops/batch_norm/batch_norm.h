// Batch normalisation over all axes but the last, which holds C channels (Ioffe and Szegedy, 2015), with the activation and the
// sum of a residual block in the same op: y = activation((x - mean) / sqrt(variance + epsilon) gamma + beta [+ residual]).
// x is [batch, ..., C]; S is the product of the axes between. In training each group of `group` consecutive samples has its own
// mean and biased variance ("ghost" statistics). The result then does not depend on the micro-batch, a multiple of the group.
// Rows whose sample id is absent take no part: their y and their gradients are 0. The running mean and variance are statistics
// (ops/statistic). They are pooled over all groups of a window, as if the window were one batch, and the update moves them once.
#pragma once

#include <string>

#include "graph/builder.h"
#include "ops/attributes.h"

namespace plimsoll::ops {

// The sample id of a row without a sample, as in data/sample_source.h.
inline constexpr std::uint32_t kAbsentRow = 0xFFFFFFFF;

enum class NormActivation { none, relu, relu6, silu };
std::string attribute_text(NormActivation activation);

struct BatchNormAttributes {
  std::int64_t group = 1;  // samples, a divisor of the batch
  double epsilon = 1e-5;
  NormActivation activation = NormActivation::none;
  bool residual = false;      // an input is added before the activation
  DType output = DType::f32;  // type of y
  PLIMSOLL_FIELDS(group, epsilon, activation, residual, output)
};

struct FixedNormAttributes {
  double epsilon = 1e-5;
  NormActivation activation = NormActivation::none;
  bool residual = false;
  DType output = DType::f32;
  PLIMSOLL_FIELDS(epsilon, activation, residual, output)
};

// The gradients that a backward op makes, at least one. With `accumulate` its last inputs are the accumulators of those of gamma
// and beta that are made.
struct NormGradients {
  bool accumulate = false;
  bool x = true, residual = false, gamma = true, beta = true;
  DType output = DType::f32;  // type of the first gradient if it is that of x or of the residual; all others are fp32

  std::size_t sums() const { return std::size_t{gamma} + std::size_t{beta}; }
  std::size_t of_residual() const { return x ? 1 : 0; }  // outputs
  std::size_t of_gamma() const { return of_residual() + (residual ? 1 : 0); }
  std::size_t of_beta() const { return of_gamma() + (gamma ? 1 : 0); }
  template <class V>
  void fields(V&& v) const {
    v("accumulate", accumulate);
    if (!x) v("x", x);
    if (residual) v("dresidual", residual);
    if (!gamma) v("gamma", gamma);
    if (!beta) v("beta", beta);
    v("output", output);
  }
};

// `residual`: the sum before the activation is needed, and the residual is an input.
struct BatchNormBackwardAttributes {
  std::int64_t group = 1;
  double epsilon = 1e-5;
  NormActivation activation = NormActivation::none;
  bool residual = false;
  NormGradients made = {};
  template <class V>
  void fields(V&& v) const {
    v("group", group), v("epsilon", epsilon), v("activation", activation), v("residual", residual);
    made.fields(v);
  }
};

struct FixedNormBackwardAttributes {
  double epsilon = 1e-5;
  NormActivation activation = NormActivation::none;
  bool residual = false;
  NormGradients made = {};
  template <class V>
  void fields(V&& v) const {
    v("epsilon", epsilon), v("activation", activation), v("residual", residual);
    made.fields(v);
  }
};

// The sums of a window: the samples of a group, and the values of a sample for each channel (S). The momentum, in (0, 1], is the
// share of the window in the running mean and variance, as in PyTorch.
struct PoolingAttributes {
  std::int64_t group = 1, values = 1;
  double momentum = 0.1;
  PLIMSOLL_FIELDS(group, values, momentum)
};

// x, residual, y, dy and the gradients of x and of the residual are fp32, or of one type of 16 bits. All else is fp32, G is the
// number of groups.
// batch_norm: (x, gamma [C], beta [C], sample_ids u32 [batch, 2], [residual]) -> y, statistics [G, 2, C]: the mean and variance
//   of each group, zeros of a group without samples.
// batch_norm_backward: (dy, x, statistics, gamma, beta, sample_ids, [residual], [into gamma], [into beta]) -> [dx], [dresidual],
//   [dgamma], [dbeta].
// pool_statistics: (statistics, sample_ids, mean [C], variance [C], sums f64 [2 C + 1], [windows i64 [1]]) -> sums.
//   A group with mean m, variance v and n values adds n (m - mean), n (v + (m - mean)^2) and n. The update counts windows.
// moving_statistics: (mean, variance, sums, [coefficient [1]]) -> mean, variance in the update. The variance of the window is
//   unbiased (n - 1). A channel whose sums are not finite does not change, and nothing changes if the window has fewer than two
//   values or the coefficient is not finite.
// count_window: (windows i64 [1], sums, [coefficient [1]]) -> windows, plus one unless the window has no value or the coefficient
//   is not finite.
// fixed_norm: (x, gamma, beta, mean [C], variance [C], [residual]) -> y.
// fixed_norm_backward: (dy, x, mean, variance, gamma, beta, [residual], [into gamma], [into beta]) -> the same gradients as
//   batch_norm_backward, with a constant mean and variance.
extern const OpDef kBatchNorm, kBatchNormBackward, kPoolStatistics, kMovingStatistics, kCountWindow, kFixedNorm,
    kFixedNormBackward;

// A layer's parameters of C elements each: gamma and beta, trained or frozen, and the statistics (add_statistic; the variance
// begins as ones).
struct BatchNormLayer {
  ValueId gamma, beta, mean, variance;
  ValueId windows = {};  // i64 [1]: the windows that moved the statistics; invalid: they are not counted
  double epsilon = 1e-5;
  double momentum = 0.1;
};

// By the statistics of each group. In a training pass the running statistics of the layer follow from now on; a layer has one
// such call in the pass. An invalid residual: none.
ValueId batch_norm(GraphBuilder& builder, ValueId x, const BatchNormLayer& layer, ValueId sample_ids, ValueId residual,
                   NormActivation activation, std::int64_t group, std::string name);
// By the running statistics, which do not change.
ValueId fixed_norm(GraphBuilder& builder, ValueId x, const BatchNormLayer& layer, ValueId residual, NormActivation activation,
                   std::string name);

}  // namespace plimsoll::ops
