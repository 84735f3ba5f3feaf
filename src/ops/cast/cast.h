// Change of dtype, rounding to nearest even. bf16 and fp16 widen exactly.
#pragma once

#include "graph/builder.h"

namespace plimsoll::ops {

struct CastAttributes {
  DType to = DType::f32;
  PLIMSOLL_FIELDS(to)
};

extern const OpDef kCast;

ValueId cast(GraphBuilder& builder, ValueId x, DType to, std::string name);

}  // namespace plimsoll::ops
