// Layer normalisation over the last axis (Ba et al., 2016): y = (x - mean) rstd gamma + beta. Mean and rstd are saved for the
// gradient; they are [rows], one each per row of x.
#pragma once

#include "graph/builder.h"
#include "ops/attributes.h"

namespace plimsoll::ops {

struct LayerNormAttributes {
  double epsilon = 1e-5;
  DType output = DType::f32;  // type of y; all else is fp32
  PLIMSOLL_FIELDS(epsilon, output)
};

// The gradients that the backward op makes, at least that of x or of gamma. With `accumulate` its last inputs are the
// accumulators of those of gamma and beta that are made.
struct LayerNormBackwardAttributes {
  bool accumulate = false;
  bool x = true, gamma = true, beta = true;
  std::int64_t sums() const { return std::int64_t{gamma} + std::int64_t{beta}; }
  std::size_t of_gamma() const { return x ? 1 : 0; }  // outputs
  std::size_t of_beta() const { return of_gamma() + (gamma ? 1 : 0); }
  template <class V>
  void fields(V&& v) const {
    v("accumulate", accumulate);
    if (!x) v("x", x);
    if (!gamma) v("gamma", gamma);
    if (!beta) v("beta", beta);
  }
};

// Backward: (dy, x, mean, rstd, gamma, [into gamma], [into beta]) -> [dx], [dgamma], [dbeta].
extern const OpDef kLayerNorm, kLayerNormBackward;

ValueId layer_norm(GraphBuilder& builder, ValueId x, ValueId gamma, ValueId beta, double epsilon);

}  // namespace plimsoll::ops
