#include "ops/attention/kernels.h"

#include <optional>

#include "device/cpu/parallel.h"
#include "ops/attention/mask_stream.h"
#include "ops/attention/tiles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention/kernels.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "ops/attention/tiles-inl.h"

#ifndef PLIMSOLL_OPS_ATTENTION_KERNELS_ONCE_
#define PLIMSOLL_OPS_ATTENTION_KERNELS_ONCE_
namespace plimsoll::cpu::attention {

struct ForwardCall {
  AttentionShape shape;
  AttentionDropout dropout;
  AttentionRows<ConstElements> rows;
  Elements out;
  float* lse;
};

struct BackwardCall {
  AttentionShape shape;
  AttentionDropout dropout;
  AttentionRows<ConstElements> rows;
  ConstElements out;
  const float* lse;
  ConstElements d_out;
  AttentionRows<Elements> gradients;

  // Sums in 16 bits would lose the last terms, so they are fp32 in the scratch.
  bool sums_apart() const { return gradients.queries.type != DType::f32; }
};

// The first tile of keys that a tile of queries sees, and the end of the queries that see a tile of keys.
inline std::int64_t first_key(const AttentionShape& shape, std::int64_t query, std::int64_t tile) {
  if (shape.window == 0) return 0;
  return std::max<std::int64_t>(0, query - shape.window + 1) / tile * tile;
}
inline std::int64_t query_end(const AttentionShape& shape, std::int64_t key_end, std::int64_t end) {
  return shape.window == 0 ? end : std::min(end, key_end - 1 + shape.window);
}

}  // namespace plimsoll::cpu::attention
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

using attention::BackwardCall;
using attention::BackwardScratch;
using attention::Carver;
using attention::first_key;
using attention::ForwardCall;
using attention::ForwardScratch;
using attention::kBackwardTile;
using attention::kKeyTile;
using attention::kQueryBlock;
using attention::kQueryTile;
using attention::query_end;

template <class E>
HWY_INLINE E query_row(const AttentionRows<E>& rows, const AttentionShape& shape, std::int64_t batch, std::int64_t token,
                       std::int64_t head) {
  return rows.queries.from((batch * shape.tokens + token) * rows.query_stride + head * shape.head_size);
}

// `from`: rows.keys or rows.values.
template <class E>
HWY_INLINE E key_row(const AttentionRows<E>& rows, const E& from, const AttentionShape& shape, std::int64_t batch,
                     std::int64_t token, std::int64_t kv_head) {
  return from.from((batch * shape.tokens + token) * rows.key_stride + kv_head * shape.head_size);
}

template <class E>
HWY_INLINE E out_row(const E& out, const AttentionShape& shape, std::int64_t batch, std::int64_t token, std::int64_t head) {
  return out.from(((batch * shape.tokens + token) * shape.heads + head) * shape.head_size);
}

// A region to fetch ahead, in units of floats. Narrow rows with an odd stride are fetched approximately.
HWY_INLINE Region region(const ConstElements& first, std::int64_t stride, std::int64_t rows, std::int64_t columns) {
  const std::int64_t per_float = static_cast<std::int64_t>(sizeof(float)) / size_of(first.type);
  return {first.as<float>(), stride / per_float, rows, ceil_div(columns, per_float)};
}

HWY_INLINE int tile_size(std::int64_t begin, std::int64_t end, int largest) {
  return static_cast<int>(std::min<std::int64_t>(largest, end - begin));
}

// The number of keys before the first query of a tile, from the first key on, up to a whole tile.
HWY_INLINE int diagonal_of(const AttentionShape& shape, std::int64_t query, std::int64_t key, int tile) {
  return shape.causal ? static_cast<int>(std::min<std::int64_t>(query - key, tile)) : tile;
}

struct HeadPlace {
  std::int64_t batch, head;
};

HWY_INLINE Position noise_position(const AttentionShape& shape, const AttentionDropout& dropout, const HeadPlace& at,
                                   std::int64_t query, std::int64_t key) {
  Position position{static_cast<std::uint64_t>(at.head), static_cast<std::uint64_t>(shape.tokens),
                    static_cast<std::uint64_t>(query), static_cast<std::uint64_t>(key)};
  if (dropout.tokens) position.ids = dropout.sample_ids + 3 * (at.batch * shape.tokens + query);
  return position;
}

// A tile of queries and keys of one row of the batch, with its masks by window and segments.
struct MaskedTile {
  std::int64_t query, key;  // the first of each
  const std::int32_t *query_segments = nullptr, *key_segments = nullptr;

  HWY_INLINE MaskedTile(const AttentionShape& shape, std::int64_t batch, std::int64_t query, std::int64_t key)
      : query(query), key(key) {
    if (shape.segments == nullptr) return;
    query_segments = shape.segments + batch * shape.tokens + query;
    key_segments = shape.segments + batch * shape.tokens + key;
  }

  // True if the ranges of segments show that no query sees any key.
  HWY_INLINE bool hidden(const Visible& tile) const {
    if (query_segments == nullptr) return false;
    const auto [least_query, most_query] = std::minmax_element(query_segments, query_segments + tile.queries);
    const auto [least_key, most_key] = std::minmax_element(key_segments, key_segments + tile.keys);
    return *most_key < *least_query || *most_query < *least_key;
  }

  // Masked scores become -inf, which the softmax makes 0.
  HWY_INLINE void hide(const AttentionShape& shape, const Visible& tile, const Matrix& scores) const {
    const std::int64_t last = query + tile.queries - 1;
    const bool window = shape.window > 0 && last - shape.window >= key;
    if (!window && query_segments == nullptr) return;
    constexpr float kHidden = -std::numeric_limits<float>::infinity();
    for (int r = 0; r < tile.queries; ++r) {
      const int seen = keys_seen(tile, r);
      float* const row = scores.at(r, 0);
      if (window) {
        const auto before = std::clamp<std::int64_t>(query + r - shape.window + 1 - key, 0, seen);
        std::fill(row, row + before, kHidden);
      }
      if (query_segments == nullptr) continue;
      for (int c = 0; c < seen; ++c) row[c] = key_segments[c] == query_segments[r] ? row[c] : kHidden;
    }
  }
};

// The queries [begin, end) of one head.
struct QueryBlock {
  std::int64_t batch, head, begin, end;
};

HWY_INLINE Source key_source(const ForwardCall& call, const ConstElements& from, const QueryBlock& block, std::int64_t token) {
  const std::int64_t kv_head = block.head / call.shape.group();
  return {key_row(call.rows, from, call.shape, block.batch, token, kv_head), call.rows.key_stride};
}
HWY_INLINE Source query_source(const ForwardCall& call, const QueryBlock& block, std::int64_t token) {
  return {query_row(call.rows, call.shape, block.batch, token, block.head), call.rows.query_stride};
}

HWY_INLINE void load_keys(const ForwardCall& call, const QueryBlock& block, const ForwardScratch& s, std::int64_t begin) {
  const int keys = tile_size(begin, call.shape.key_end(block.end), kKeyTile), depth = static_cast<int>(call.shape.head_size);
  const Matrix values{s.values, attention::padded_head(call.shape)};
  pack_rows(key_source(call, call.rows.keys, block, begin), keys, depth, 1.0f, values);
  pack_transposed(values, keys, depth, {s.keys, kKeyTile});
  pack_rows(key_source(call, call.rows.values, block, begin), keys, depth, 1.0f, values);
}

// Rows from `begin` to `end`, at most `rows`, of one part of a head.
HWY_INLINE Region region_of(const ForwardCall& call, const Source& from, std::int64_t begin, std::int64_t end,
                            std::int64_t rows) {
  return region(from.first, from.stride, std::min(rows, end - begin), call.shape.head_size);
}

// The memory to fetch during one key tile: the next keys and values; during the first tile also the rows of the output; during
// the last one the start of the probable next block of this thread.
HWY_INLINE Ahead after_keys(const ForwardCall& call, const QueryBlock& block, const std::optional<QueryBlock>& following,
                            std::int64_t key) {
  Ahead ahead(call.rows.queries.as<float>());
  const std::int64_t width = call.shape.heads * call.shape.head_size, next = key + kKeyTile;
  const auto add_keys = [&](const QueryBlock& of, std::int64_t begin) HWY_ATTR {
    const std::int64_t end = call.shape.key_end(of.end);
    ahead.add(region_of(call, key_source(call, call.rows.keys, of, begin), begin, end, kKeyTile));
    ahead.add(region_of(call, key_source(call, call.rows.values, of, begin), begin, end, kKeyTile));
  };
  if (next < call.shape.key_end(block.end)) {
    add_keys(block, next);
  } else if (following) {
    add_keys(*following, first_key(call.shape, following->begin, kKeyTile));
    ahead.add(region_of(call, query_source(call, *following, following->begin), following->begin, following->end, kQueryBlock));
  }
  if (key == first_key(call.shape, block.begin, kKeyTile)) {
    ahead.add(region(out_row(call.out, call.shape, block.batch, block.begin, block.head), width, block.end - block.begin,
                     call.shape.head_size));
  }
  return ahead;
}

// Adds the keys from key_begin on to the running softmax and output of the queries from query_begin on.
HWY_INLINE void forward_tile(const ForwardCall& call, const QueryBlock& block, const MaskStream& stream, const ForwardScratch& s,
                             std::int64_t query_begin, std::int64_t key_begin, Ahead& ahead) {
  const int depth = static_cast<int>(call.shape.head_size);
  const std::int64_t head = attention::padded_head(call.shape), row = query_begin - block.begin;
  const Visible tile{tile_size(query_begin, block.end, kQueryTile), tile_size(key_begin, call.shape.key_end(block.end), kKeyTile),
                     diagonal_of(call.shape, query_begin, key_begin, kKeyTile)};
  const MaskedTile masked(call.shape, block.batch, query_begin, key_begin);
  if (masked.hidden(tile)) return;
  const Matrix scores{s.scores, kKeyTile};
  multiply_scores(tile, depth, {s.queries + row * depth, depth}, {s.keys, kKeyTile}, scores, ahead);
  masked.hide(call.shape, tile, scores);
  const Position position = noise_position(call.shape, call.dropout, {block.batch, block.head}, query_begin, key_begin);
  const auto softmax = stream.active ? softmax_tile<true> : softmax_tile<false>;
  softmax(tile, scores, stream, position, s.maximum + row, s.alpha, s.sums + row * kLanes, s.mask);
  const Matrix output{s.output + row * head, head}, values{s.values, head};
  if (call.shape.segments == nullptr && key_begin == first_key(call.shape, query_begin, kKeyTile)) {
    multiply_weights<false, Start::zero>(tile, depth, scores, values, output, ahead);
  } else {
    multiply_weights<false, Start::scale>(tile, depth, scores, values, output, ahead, s.alpha);
  }
}

// out = output / sum, lse = maximum + log(sum) of up to kQueryTile queries.
HWY_INLINE void finish_queries(const ForwardCall& call, const QueryBlock& block, const ForwardScratch& s, std::int64_t begin) {
  const std::int64_t row = begin - block.begin, head = attention::padded_head(call.shape);
  const int queries = tile_size(begin, block.end, kQueryTile);
  alignas(64) float sums[kQueryTile], lse[kQueryTile];
  for (int r = 0; r < kQueryTile; ++r) {
    sums[r] = r < queries ? hn::GetLane(hn::SumOfLanes(F32(), hn::Load(F32(), s.sums + (row + r) * kLanes))) : 1.0f;
  }
  for (int r = 0; r < kQueryTile; r += kLanes) {
    const Floats sum = hn::Load(F32(), sums + r);
    const Floats log_sum = hn::Add(hn::Log(F32(), sum), hn::Sub(sum, sum));  // the difference carries NaN, which Log does not
    hn::Store(hn::Add(hn::Load(F32(), s.maximum + row + r), log_sum), F32(), lse + r);
  }
  std::memcpy(call.lse + (block.batch * call.shape.heads + block.head) * call.shape.tokens + begin, lse,
              static_cast<std::size_t>(queries) * 4);
  for (int r = 0; r < queries; ++r) {
    write_row(s.output + (row + r) * head, static_cast<int>(call.shape.head_size), 1.0f / sums[r],
              out_row(call.out, call.shape, block.batch, begin + r, block.head));
  }
}

// Key tiles in ascending order, each with all queries that see it. Maxima begin with a finite number: a row may see no key of a
// tile, and -inf - -inf is NaN.
HWY_NOINLINE void forward_block(const ForwardCall& call, const QueryBlock& block, const std::optional<QueryBlock>& following,
                                std::byte* scratch) {
  Carver carver(scratch);
  const ForwardScratch s(call.shape, carver);
  const MaskStream stream(call.dropout, block.batch);
  const std::int64_t rows = ForwardScratch::block_rows(call.shape);
  const int depth = static_cast<int>(call.shape.head_size);
  std::fill(s.maximum, s.maximum + rows, std::numeric_limits<float>::lowest());
  zero_fill(s.sums, rows * kLanes);
  if (call.shape.segments != nullptr) zero_fill(s.output, rows * attention::padded_head(call.shape));
  pack_rows(query_source(call, block, block.begin), static_cast<int>(block.end - block.begin), depth, call.shape.scale,
            {s.queries, depth});
  const std::int64_t key_end = call.shape.key_end(block.end);
  for (std::int64_t key = first_key(call.shape, block.begin, kKeyTile); key < key_end; key += kKeyTile) {
    load_keys(call, block, s, key);
    Ahead ahead = after_keys(call, block, following, key);
    const std::int64_t end = query_end(call.shape, key + kKeyTile, block.end);
    for (std::int64_t query = std::max(block.begin, call.shape.first_query(key)); query < end; query += kQueryTile) {
      forward_tile(call, block, stream, s, query, key, ahead);
    }
  }
  for (std::int64_t query = block.begin; query < block.end; query += kQueryTile) finish_queries(call, block, s, query);
}

// Task t is one block of queries of one head. The last blocks come first, because they see most keys:
//   task           0 .. h - 1     h .. 2 h - 1     ...      ; h: heads of all samples
//   query block    last           last but one     ...
HWY_INLINE QueryBlock query_block(const AttentionShape& shape, std::int64_t task) {
  const std::int64_t heads = shape.batch * shape.heads, blocks = ceil_div(shape.tokens, kQueryBlock);
  const std::int64_t block = blocks - 1 - task / heads, head = task % heads;
  return {head / shape.heads, head % shape.heads, block * kQueryBlock,
          std::min<std::int64_t>(shape.tokens, (block + 1) * kQueryBlock)};
}

void forward_task(const ForwardCall& call, const SlotTask& task, std::byte* scratch) {
  std::optional<QueryBlock> following;
  if (task.following >= 0) following = query_block(call.shape, task.following);
  forward_block(call, query_block(call.shape, task.task), following, scratch);
}

// A head of keys and values, with the heads of queries that read it.
struct GroupTask {
  std::int64_t batch, kv_head;
};

HWY_INLINE GroupTask group_task(const AttentionShape& shape, std::int64_t index) {
  return {index / shape.kv_heads, index % shape.kv_heads};
}

// A tile of backward: queries of the head with number `member` in its group.
struct TilePlace {
  GroupTask task;
  std::int64_t member, query, key;

  HWY_INLINE std::int64_t head(const AttentionShape& shape) const { return task.kv_head * shape.group() + member; }
};

// Packs the queries and d_out of a tile; with the first keys of these queries also delta = d_out . out.
HWY_INLINE void load_queries(const BackwardCall& call, const TilePlace& at, const BackwardScratch& s, int queries, bool first) {
  const AttentionShape& shape = call.shape;
  const std::int64_t width = shape.heads * shape.head_size, padded = attention::padded_head(shape), head = at.head(shape);
  const int depth = static_cast<int>(shape.head_size);
  pack_rows({query_row(call.rows, shape, at.task.batch, at.query, head), call.rows.query_stride}, queries, depth, shape.scale,
            {s.queries, padded});
  pack_rows({out_row(call.d_out, shape, at.task.batch, at.query, head), width}, queries, depth, 1.0f, {s.d_out, padded});
  float* const delta = s.delta + at.member * shape.tokens + at.query;
  for (int r = 0; first && r < queries; ++r) {
    delta[r] = dot(s.d_out + r * padded, out_row(call.out, shape, at.task.batch, at.query + r, head), depth);
  }
}

HWY_INLINE bool is_first(const AttentionShape& shape, const TilePlace& at) {
  return shape.segments == nullptr && at.key == first_key(shape, at.query, kBackwardTile);
}

// The last tile of keys that a tile of queries sees.
HWY_INLINE std::int64_t last_key(const AttentionShape& shape, std::int64_t query) {
  return shape.causal ? query : (shape.tokens - 1) / kBackwardTile * kBackwardTile;
}

// The memory to fetch during a tile of queries and keys: the rows of its gradients, and the operands of the next tile, perhaps of
// the probable next group of this thread.
HWY_INLINE Ahead after_tile(const BackwardCall& call, const TilePlace& at, std::int64_t following) {
  const AttentionShape& shape = call.shape;
  const std::int64_t width = shape.heads * shape.head_size;
  Ahead ahead(call.rows.queries.as<float>());
  const auto add = [&](const ConstElements& first, std::int64_t stride, std::int64_t begin) HWY_ATTR {
    ahead.add(region(first, stride, std::min<std::int64_t>(kBackwardTile, shape.tokens - begin), shape.head_size));
  };
  const auto add_keys = [&](const auto& rows, const GroupTask& task, std::int64_t begin) HWY_ATTR {
    add(key_row(rows, rows.keys, shape, task.batch, begin, task.kv_head), rows.key_stride, begin);
    add(key_row(rows, rows.values, shape, task.batch, begin, task.kv_head), rows.key_stride, begin);
  };
  if (!call.sums_apart() || at.key == last_key(shape, at.query)) {
    add(query_row(call.gradients, shape, at.task.batch, at.query, at.head(shape)), call.gradients.query_stride, at.query);
  }
  TilePlace next = at;
  next.query += kBackwardTile;
  if (next.query >= query_end(shape, at.key + kBackwardTile, shape.tokens)) {
    next.query = shape.first_query(at.key);
    ++next.member;
    if (next.member == shape.group()) {
      add_keys(call.gradients, at.task, at.key);
      next.member = 0;
      next.key = at.key + kBackwardTile;
      next.query = shape.first_query(next.key);
      if (next.key >= shape.tokens) {
        if (following < 0) return ahead;
        next = {group_task(shape, following), 0, 0, 0};
      }
      add_keys(call.rows, next.task, next.key);
    }
  }
  const std::int64_t head = next.head(shape);
  add(query_row(call.rows, shape, next.task.batch, next.query, head), call.rows.query_stride, next.query);
  add(out_row(call.d_out, shape, next.task.batch, next.query, head), width, next.query);
  if (is_first(shape, next)) add(out_row(call.out, shape, next.task.batch, next.query, head), width, next.query);
  return ahead;
}

// Adds a tile to d_keys and d_values in the scratch, and to d_queries in the result.
template <Start kStart>
HWY_INLINE void backward_tile(const BackwardCall& call, const TilePlace& at, const MaskStream& stream, const BackwardScratch& s,
                              Ahead ahead) {
  const AttentionShape& shape = call.shape;
  const int depth = static_cast<int>(shape.head_size);
  const std::int64_t padded = attention::padded_head(shape), head = at.head(shape);
  const Visible tile{tile_size(at.query, shape.tokens, kBackwardTile), tile_size(at.key, shape.tokens, kBackwardTile),
                     diagonal_of(shape, at.query, at.key, kBackwardTile)};
  const MaskedTile masked(shape, at.task.batch, at.query, at.key);
  if (masked.hidden(tile)) return;
  load_queries(call, at, s, tile.queries, is_first(shape, at));
  const Matrix queries{s.queries, padded}, d_out{s.d_out, padded}, scores{s.weights, kBackwardTile},
      d_scores{s.d_scores, kBackwardTile};
  multiply_scores(tile, depth, queries, {s.keys_t, kBackwardTile}, scores, ahead);
  masked.hide(shape, tile, scores);
  multiply_scores(tile, depth, d_out, {s.values_t, kBackwardTile}, d_scores, ahead);
  const std::int64_t first_row = head * shape.tokens + at.query;
  const Position position = noise_position(shape, call.dropout, {at.task.batch, head}, at.query, at.key);
  const float* lse = call.lse + at.task.batch * shape.heads * shape.tokens + first_row;
  const std::int64_t row_of_group = at.member * shape.tokens + at.query;
  const auto gradient = stream.active ? softmax_gradient_tile<true> : softmax_gradient_tile<false>;
  gradient(tile, scores, d_scores, stream, position, lse, s.delta + row_of_group, s.mask);
  const AttentionRows<Elements>& made = call.gradients;
  if (made.values.data != nullptr) multiply_weights<true, kStart>(tile, depth, scores, d_out, {s.d_values, padded}, ahead);
  if (made.keys.data != nullptr) multiply_weights<true, kStart>(tile, depth, d_scores, queries, {s.d_keys, padded}, ahead);
  if (made.queries.data == nullptr) return;
  multiply_weights<false, Start::zero>(tile, depth, d_scores, {s.keys, padded}, {s.d_queries, padded}, ahead);
  const auto add = is_first(shape, at) ? write_floats<false> : write_floats<true>;
  for (int r = 0; r < tile.queries; ++r) {
    const Elements row = query_row(call.gradients, shape, at.task.batch, at.query + r, head);
    float* sum = call.sums_apart() ? s.sums + (row_of_group + r) * shape.head_size : row.as<float>();
    add(s.d_queries + r * padded, depth, shape.scale, sum);
    if (call.sums_apart() && at.key == last_key(shape, at.query)) write_row(sum, depth, 1.0f, row);
  }
}

// With segments any tile except the diagonal one may be skipped, so all sums that a first tile would set begin here.
HWY_NOINLINE void begin_segments(const BackwardCall& call, const GroupTask& task, const BackwardScratch& s) {
  const AttentionShape& shape = call.shape;
  for (std::int64_t member = 0; member < shape.group(); ++member) {
    for (std::int64_t query = 0; query < shape.tokens; query += kBackwardTile) {
      const TilePlace at{task, member, query, query};
      const int queries = tile_size(query, shape.tokens, kBackwardTile);
      load_queries(call, at, s, queries, /*first=*/true);
      for (int r = 0; call.gradients.queries.data != nullptr && r < queries; ++r) {
        const Elements row = query_row(call.gradients, shape, task.batch, query + r, at.head(shape));
        float* sum = call.sums_apart() ? s.sums + (member * shape.tokens + query + r) * shape.head_size : row.as<float>();
        zero_fill(sum, shape.head_size);
      }
    }
  }
}

// One group. Loops: key tiles, heads of the group, query tiles, all ascending, so every sum has one order.
void backward_task(const BackwardCall& call, const SlotTask& slot, std::byte* scratch) {
  const AttentionShape& shape = call.shape;
  const GroupTask task = group_task(shape, slot.task);
  Carver carver(scratch);
  const BackwardScratch s(shape, carver, call.sums_apart());
  const MaskStream stream(call.dropout, task.batch);
  const std::int64_t stride = call.rows.key_stride, padded = attention::padded_head(shape);
  const int depth = static_cast<int>(shape.head_size);
  if (shape.segments != nullptr) begin_segments(call, task, s);
  for (std::int64_t key = 0; key < shape.tokens; key += kBackwardTile) {
    const int keys = tile_size(key, shape.tokens, kBackwardTile);
    const Matrix packed{s.keys, padded};
    pack_rows({key_row(call.rows, call.rows.values, shape, task.batch, key, task.kv_head), stride}, keys, depth, 1.0f, packed);
    pack_transposed(packed, keys, depth, {s.values_t, kBackwardTile});
    pack_rows({key_row(call.rows, call.rows.keys, shape, task.batch, key, task.kv_head), stride}, keys, depth, 1.0f, packed);
    pack_transposed(packed, keys, depth, {s.keys_t, kBackwardTile});
    const std::int64_t end = query_end(shape, key + kBackwardTile, shape.tokens);
    for (std::int64_t member = 0; member < shape.group(); ++member) {
      TilePlace at{task, member, shape.first_query(key), key};
      if (member == 0) {
        backward_tile<Start::zero>(call, at, stream, s, after_tile(call, at, slot.following));
        at.query += kBackwardTile;
      }
      for (; at.query < end; at.query += kBackwardTile) {
        backward_tile<Start::add>(call, at, stream, s, after_tile(call, at, slot.following));
      }
    }
    const AttentionRows<Elements>& to = call.gradients;
    const auto write = [&](const Elements& part, const float* sums) HWY_ATTR {
      for (int r = 0; part.data != nullptr && r < keys; ++r) {
        write_row(sums + r * padded, depth, 1.0f, key_row(to, part, shape, task.batch, key + r, task.kv_head));
      }
    };
    write(to.keys, s.d_keys);
    write(to.values, s.d_values);
  }
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {
namespace {

HWY_EXPORT(forward_task);
HWY_EXPORT(backward_task);

template <class Scratch, class... More>
std::int64_t slot_bytes(const AttentionShape& shape, More... more) {
  attention::Carver carver(nullptr);
  Scratch(shape, carver, more...);
  return carver.used();
}

std::int64_t forward_tasks(const AttentionShape& shape) {
  return shape.batch * shape.heads * ceil_div(shape.tokens, attention::kQueryBlock);
}

}  // namespace

Bytes attention_forward_scratch(const AttentionShape& shape, int threads) {
  return Bytes{slot_bytes<attention::ForwardScratch>(shape) * std::min<std::int64_t>(forward_tasks(shape), threads)};
}

Bytes attention_backward_scratch(const AttentionShape& shape, DType gradients, int threads) {
  return Bytes{slot_bytes<attention::BackwardScratch>(shape, gradients != DType::f32) *
               std::min<std::int64_t>(shape.batch * shape.kv_heads, threads)};
}

void attention_forward(const AttentionShape& shape, const AttentionDropout& dropout, const AttentionRows<ConstElements>& rows,
                       Elements out, float* lse, int threads, std::byte* scratch) {
  const attention::ForwardCall call{shape, dropout, rows, out, lse};
  const std::int64_t slot_size = slot_bytes<attention::ForwardScratch>(shape);
  const auto run = &HWY_DYNAMIC_DISPATCH(forward_task);
  parallel_slots(forward_tasks(shape), threads, [&](const SlotTask& task) { run(call, task, scratch + task.slot * slot_size); });
}

void attention_backward(const AttentionShape& shape, const AttentionDropout& dropout, const AttentionRows<ConstElements>& rows,
                        ConstElements out, const float* lse, ConstElements d_out, const AttentionRows<Elements>& gradients,
                        int threads, std::byte* scratch) {
  const attention::BackwardCall call{shape, dropout, rows, out, lse, d_out, gradients};
  const std::int64_t slot_size = slot_bytes<attention::BackwardScratch>(shape, call.sums_apart());
  const auto run = &HWY_DYNAMIC_DISPATCH(backward_task);
  parallel_slots(shape.batch * shape.kv_heads, threads,
                 [&](const SlotTask& task) { run(call, task, scratch + task.slot * slot_size); });
}

}  // namespace plimsoll::cpu
#endif  // HWY_ONCE
