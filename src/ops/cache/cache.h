// What generation keeps of earlier tokens: keys and values [b, slots, c] that live from pass to pass. A token's place is its
// position modulo the slots: a cache of as many slots as a sliding window is a ring. Caches are updated in place and are all
// fp32. No op here has a gradient.
#pragma once

#include "graph/builder.h"

namespace plimsoll::ops {

struct CachedAttentionAttributes {
  std::int64_t heads = 1, kv_heads = 1;
  std::int64_t window = 0;  // positions that a query sees, its own included; 0: all that the cache holds
  double scale = 0;         // of the scores; 0: 1 / sqrt(head_size)
  friend bool operator==(const CachedAttentionAttributes&, const CachedAttentionAttributes&) = default;
  template <class V>
  void fields(V&& v) const {
    v("heads", heads), v("kv_heads", kv_heads);
    if (window > 0) v("window", window);
    if (scale != 0) v("scale", scale);
  }
};

struct ColumnsAttributes {
  std::int64_t begin = 0, end = 0;  // of the last axis
  friend bool operator==(const ColumnsAttributes&, const ColumnsAttributes&) = default;
  template <class V>
  void fields(V&& v) const {
    v("begin", begin), v("end", end);
  }
};

// cache_rows: (rows [b, t, c], lengths i32 [b], cache [b, slots, c]) -> cache: of each sample the last rows before its length, as
// many as there are slots; row i has position i.
// cached_attention: (q [b, t, heads * d], k [b, t, kv_heads * d], v likewise, positions i32 [b, t], cached keys, cached values)
// -> out [b, t, heads * d], keys, values: token after token, stores k and v at its position, then attends to the positions up to
// it. It reads no slot without a position. A token may be given again at its own position: that changes no cache.
// columns: a part of the last axis.
extern const OpDef kCacheRows, kCachedAttention, kColumns;

// The new version of the cache.
ValueId cache_rows(GraphBuilder& builder, ValueId rows, ValueId lengths, ValueId cache, std::string name);
// The output; `keys` and `values` become their new versions.
ValueId cached_attention(GraphBuilder& builder, ValueId q, ValueId k, ValueId v, ValueId positions, ValueId& keys,
                         ValueId& values, const CachedAttentionAttributes& attributes);
ValueId columns(GraphBuilder& builder, ValueId x, std::int64_t begin, std::int64_t end, std::string name);

}  // namespace plimsoll::ops
