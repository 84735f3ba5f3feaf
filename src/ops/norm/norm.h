// Layer normalisation over the last axis (Ba et al., 2016): y = (x - mean) rstd gamma + beta. Mean and rstd are saved for the
// gradient; they are [rows], one each per row of x.
#pragma once

#include "graph/builder.h"
#include "ops/attributes.h"

namespace plimsoll::ops {

struct LayerNormAttributes {
  double epsilon = 1e-5;
  DType output = DType::f32;  // of y; all else is fp32
  friend bool operator==(const LayerNormAttributes&, const LayerNormAttributes&) = default;
  template <class V>
  void fields(V&& v) const {
    v("epsilon", epsilon), v("output", output);
  }
};

// Backward: (dy, x, mean, rstd, gamma, [into gamma, into beta]) -> dx, dgamma, dbeta.
extern const OpDef kLayerNorm, kLayerNormBackward;

ValueId layer_norm(GraphBuilder& builder, ValueId x, ValueId gamma, ValueId beta, double epsilon);

}  // namespace plimsoll::ops
