// The class token of a vision transformer (Dosovitskiy et al., 2020): a trained row before the patches of an image, whose last
// state the head reads.
#pragma once

#include "graph/builder.h"
#include "ops/attributes.h"

namespace plimsoll::ops {

struct ClassTokenBackwardAttributes {
  std::int64_t tokens = 1;  // of a sample
  PLIMSOLL_FIELDS(tokens)
};

// place_tokens: (x [b, n, w], token [1, 1, w], positions [1, n + 1, w]) -> [b, n + 1, w]: the token, then the rows of x, each
// plus its position. All fp32. class_token: x [b, t, w] -> its first rows [b, w]; class_token_backward: d [b, w] -> the gradient
// of x. other_tokens: x [b, t, w] -> all but the first rows, [b, t - 1, w].
extern const OpDef kPlaceTokens, kClassToken, kClassTokenBackward, kOtherTokens;

ValueId place_tokens(GraphBuilder& builder, ValueId x, ValueId token, ValueId positions, std::string name);
ValueId class_token(GraphBuilder& builder, ValueId x, std::string name);

}  // namespace plimsoll::ops
