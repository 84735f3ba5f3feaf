// Dropout with counter-based noise (Philox): the mask is a function of (key, epoch, sample, element in the sample), never stored;
// the backward pass applies the same op to the gradient. x is [batch, ...] with sample_ids [batch, 2] = {epoch, sample}, or
// [batch, tokens, ...] with sample_ids [batch, tokens, 3] = {epoch, sample, position}. A token then has the same noise as at that
// position of a row with its sample alone.
#pragma once

#include "graph/builder.h"

namespace plimsoll::ops {

struct DropoutAttributes {
  double probability = 0;
  NoiseKey key{};
  PLIMSOLL_FIELDS(probability, key)
};

extern const OpDef kDropout;

// Returns x itself if the probability is zero.
ValueId dropout(GraphBuilder& builder, ValueId x, ValueId sample_ids, double probability, std::uint64_t seed);

}  // namespace plimsoll::ops
