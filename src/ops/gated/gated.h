// The gated product of an MLP (Shazeer, 2020): out = act(gate) * up, computed in fp32 and rounded once. SwiGLU with silu, GEGLU
// with a GELU.
#pragma once

#include <string>

#include "graph/builder.h"
#include "ops/attributes.h"

namespace plimsoll::ops {

enum class Activation { silu, gelu_tanh, gelu_erf };
std::string attribute_text(Activation activation);

struct GatedAttributes {
  Activation activation = Activation::silu;
  PLIMSOLL_FIELDS(activation)
};

// The gradients that the backward op makes, at least one.
struct GatedBackwardAttributes {
  Activation activation = Activation::silu;
  bool gate = true, up = true;
  template <class V>
  void fields(V&& v) const {
    v("activation", activation);
    if (!gate) v("gate", gate);
    if (!up) v("up", up);
  }
};

// (gate, up) -> out, and (d_out, gate, up) -> [d_gate], [d_up]: all of one shape and width.
extern const OpDef kGated, kGatedBackward;

ValueId gated(GraphBuilder& builder, ValueId gate, ValueId up, Activation activation, std::string name);

}  // namespace plimsoll::ops
