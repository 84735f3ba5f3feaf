// The cache of generation: keys and values [b, slots, c] of earlier tokens, kept from pass to pass, fp32 and updated in place.
// The slot of a token is its position modulo the number of slots, so a cache with the slots of a sliding window is a ring:
//   position  0 1 2 3 4 5 6      slots of a ring of 4 after position 6:  4 5 6 3
// The other ops here take parts of values for generation and forward passes. No op has a gradient.
#pragma once

#include <string>
#include <vector>

#include "graph/builder.h"
#include "ops/attention/attention.h"

namespace plimsoll::ops {

struct CacheRowsAttributes {
  std::int64_t begin = 0;  // first column of the rows
  template <class V>
  void fields(V&& v) const {
    if (begin > 0) v("begin", begin);
  }
};

struct CachedAttentionAttributes {
  QkvLayout layout;
  std::int64_t window = 0;  // positions that a query sees, its own included; 0: all in the cache
  double scale = 0;         // factor of the scores; 0: 1 / sqrt(head_size)
  template <class V>
  void fields(V&& v) const {
    layout.fields(v);
    if (window > 0) v("window", window);
    if (scale != 0) v("scale", scale);
  }
};

struct ColumnsAttributes {
  std::int64_t begin = 0, end = 0;  // of the last axis
  PLIMSOLL_FIELDS(begin, end)
};

// cache_rows: (rows [b, t, w], lengths i32 [b], cache [b, slots, c]) -> cache. Stores the columns [begin, begin + c) of each
// sample's last
//   rows before its length, one for each slot; row i has position i.
// cached_attention: (operands as in ops/attention, positions i32 [b, t], cached keys, cached values) -> out [b, t, heads * d],
// keys,
//   values. Token by token, it stores k and v at the token's position and attends to all positions up to it. It reads no slot
//   without a position. A repeated token at its own position changes no cache.
// columns: (x f32 [.., c]) -> [.., end - begin], a part of the last axis.
// gather_rows: (x f32 [b, t, c], index i32 [n]) -> [n, c], rows of the b * t rows of x.
extern const OpDef kCacheRows, kCachedAttention, kColumns, kGatherRows;

// Returns the new version of the cache.
ValueId cache_rows(GraphBuilder& builder, ValueId rows, std::int64_t begin, ValueId lengths, ValueId cache, std::string name);
// Returns the output; `keys` and `values` become their new versions.
ValueId cached_attention(GraphBuilder& builder, std::vector<ValueId> qkv, ValueId positions, ValueId& keys, ValueId& values,
                         const CachedAttentionAttributes& attributes);
ValueId columns(GraphBuilder& builder, ValueId x, std::int64_t begin, std::int64_t end, std::string name);
ValueId gather_rows(GraphBuilder& builder, ValueId x, ValueId index, std::string name);

}  // namespace plimsoll::ops
