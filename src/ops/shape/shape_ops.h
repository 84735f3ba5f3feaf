// Changes of shape: `reshape` is a view (the same bytes, no instruction), `transpose` swaps the last two axes by copying.
#pragma once

#include "graph/builder.h"
#include "ops/attributes.h"

namespace plimsoll::ops {

struct ReshapeAttributes {
  Shape shape;
  PLIMSOLL_FIELDS(shape)
};

extern const OpDef kReshape, kTranspose;

ValueId reshape(GraphBuilder& builder, ValueId x, Shape shape, std::string name);
ValueId transpose(GraphBuilder& builder, ValueId x, std::string name);

}  // namespace plimsoll::ops
