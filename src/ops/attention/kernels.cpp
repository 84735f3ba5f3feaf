#include "ops/attention/kernels.h"

#include <cmath>
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
  ConstElements qkv;
  Elements out;
  float* lse;
};

struct BackwardCall {
  AttentionShape shape;
  AttentionDropout dropout;
  ConstElements qkv, out;
  const float* lse;
  ConstElements d_out;
  Elements d_qkv;

  // Sums of 16 bits would lose what is added last: they are fp32 in the scratch.
  bool sums_apart() const { return d_qkv.type != DType::f32; }
};

inline float score_scale(const AttentionShape& shape) { return 1.0f / std::sqrt(static_cast<float>(shape.head_size)); }

}  // namespace plimsoll::cpu::attention
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

using attention::BackwardCall;
using attention::BackwardScratch;
using attention::Carver;
using attention::ForwardCall;
using attention::ForwardScratch;
using attention::kBackwardTile;
using attention::kKeyTile;
using attention::kQueryBlock;
using attention::kQueryTile;

// Rows of one head: `part` 0, 1, 2 of qkv are queries, keys and values.
template <class E>
HWY_INLINE E qkv_row(const E& qkv, const AttentionShape& shape, std::int64_t batch, std::int64_t token, int part,
                     std::int64_t head) {
  return qkv.from((((batch * shape.tokens + token) * 3 + part) * shape.heads + head) * shape.head_size);
}

template <class E>
HWY_INLINE E out_row(const E& out, const AttentionShape& shape, std::int64_t batch, std::int64_t token, std::int64_t head) {
  return out.from(((batch * shape.tokens + token) * shape.heads + head) * shape.head_size);
}

// To be fetched ahead, which counts in floats, of narrow rows with an odd stride only about.
HWY_INLINE Region region(const ConstElements& first, std::int64_t stride, std::int64_t rows, std::int64_t columns) {
  const std::int64_t per_float = static_cast<std::int64_t>(sizeof(float)) / size_of(first.type);
  return {first.as<float>(), stride / per_float, rows, ceil_div(columns, per_float)};
}

HWY_INLINE int tile_size(std::int64_t begin, std::int64_t end, int largest) {
  return static_cast<int>(std::min<std::int64_t>(largest, end - begin));
}

// The queries [begin, end) of one head.
struct QueryBlock {
  std::int64_t batch, head, begin, end;
};

HWY_INLINE Source head_rows(const ForwardCall& call, const QueryBlock& block, std::int64_t token, int part) {
  return {qkv_row(call.qkv, call.shape, block.batch, token, part, block.head), 3 * call.shape.heads * call.shape.head_size};
}

HWY_INLINE void load_keys(const ForwardCall& call, const QueryBlock& block, const ForwardScratch& s, std::int64_t begin) {
  const int keys = tile_size(begin, block.end, kKeyTile), depth = static_cast<int>(call.shape.head_size);
  const Matrix values{s.values, attention::padded_head(call.shape)};
  pack_rows(head_rows(call, block, begin, 1), keys, depth, 1.0f, values);
  pack_transposed(values, keys, depth, {s.keys, kKeyTile});
  pack_rows(head_rows(call, block, begin, 2), keys, depth, 1.0f, values);
}

// Rows of one of the three parts of a head.
HWY_INLINE Region region_of(const ForwardCall& call, const QueryBlock& block, int part, std::int64_t begin, std::int64_t rows) {
  const Source from = head_rows(call, block, begin, part);
  return region(from.first, from.stride, std::min(rows, block.end - begin), call.shape.head_size);
}

// What follows the tiles of one key tile: the next keys and values; with the first of them, the rows that will be written; with
// the last, the start of the block that this thread will probably be given.
HWY_INLINE Ahead after_keys(const ForwardCall& call, const QueryBlock& block, const std::optional<QueryBlock>& following,
                            std::int64_t key) {
  Ahead ahead(call.qkv.as<float>());
  const std::int64_t width = call.shape.heads * call.shape.head_size, next = key + kKeyTile;
  if (next < block.end) {
    ahead.add(region_of(call, block, 1, next, kKeyTile));
    ahead.add(region_of(call, block, 2, next, kKeyTile));
  } else if (following) {
    ahead.add(region_of(call, *following, 1, 0, kKeyTile));
    ahead.add(region_of(call, *following, 2, 0, kKeyTile));
    ahead.add(region_of(call, *following, 0, following->begin, kQueryBlock));
  }
  if (key == 0) {
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
  const Visible tile{tile_size(query_begin, block.end, kQueryTile), tile_size(key_begin, block.end, kKeyTile),
                     static_cast<int>(std::min<std::int64_t>(query_begin - key_begin, kKeyTile))};
  const Matrix scores{s.scores, kKeyTile};
  multiply_scores(tile, depth, {s.queries + row * depth, depth}, {s.keys, kKeyTile}, scores, ahead);
  const Position position{static_cast<std::uint64_t>(block.head * call.shape.tokens + query_begin),
                          static_cast<std::uint64_t>(call.shape.tokens), static_cast<std::uint64_t>(key_begin)};
  const auto softmax = stream.active ? softmax_tile<true> : softmax_tile<false>;
  softmax(tile, scores, stream, position, s.maximum + row, s.alpha, s.sums + row * kLanes, s.mask);
  const Matrix output{s.output + row * head, head}, values{s.values, head};
  if (key_begin == 0) {
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

// Key tiles in ascending order, each with all queries that see it.
HWY_NOINLINE void forward_block(const ForwardCall& call, const QueryBlock& block, const std::optional<QueryBlock>& following,
                                std::byte* scratch) {
  Carver carver(scratch);
  const ForwardScratch s(call.shape, carver);
  const MaskStream stream(call.dropout, block.batch);
  const std::int64_t rows = ForwardScratch::block_rows(call.shape);
  const int depth = static_cast<int>(call.shape.head_size);
  std::fill(s.maximum, s.maximum + rows, -std::numeric_limits<float>::infinity());
  zero_fill(s.sums, rows * kLanes);
  pack_rows(head_rows(call, block, block.begin, 0), static_cast<int>(block.end - block.begin), depth,
            attention::score_scale(call.shape), {s.queries, depth});
  for (std::int64_t key = 0; key < block.end; key += kKeyTile) {
    load_keys(call, block, s, key);
    Ahead ahead = after_keys(call, block, following, key);
    for (std::int64_t query = std::max(block.begin, key); query < block.end; query += kQueryTile) {
      forward_tile(call, block, stream, s, query, key, ahead);
    }
  }
  for (std::int64_t query = block.begin; query < block.end; query += kQueryTile) finish_queries(call, block, s, query);
}

// Task t is one block of queries of one head; the last blocks, which see most keys, come first.
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

struct HeadTask {
  std::int64_t batch, head;
};

HWY_INLINE HeadTask head_task(const AttentionShape& shape, std::int64_t index) {
  return {index / shape.heads, index % shape.heads};
}

// Packs the queries and d_out of a tile; on the first key tile also delta = d_out . out.
HWY_INLINE void load_queries(const BackwardCall& call, const HeadTask& task, const BackwardScratch& s, std::int64_t begin,
                             int queries, bool first) {
  const AttentionShape& shape = call.shape;
  const std::int64_t width = shape.heads * shape.head_size, head = attention::padded_head(shape);
  const int depth = static_cast<int>(shape.head_size);
  pack_rows({qkv_row(call.qkv, shape, task.batch, begin, 0, task.head), 3 * width}, queries, depth, attention::score_scale(shape),
            {s.queries, head});
  pack_rows({out_row(call.d_out, shape, task.batch, begin, task.head), width}, queries, depth, 1.0f, {s.d_out, head});
  for (int r = 0; first && r < queries; ++r) {
    s.delta[begin + r] = dot(s.d_out + r * head, out_row(call.out, shape, task.batch, begin + r, task.head), depth);
  }
}

// What follows a tile of queries and keys: the rows that its gradients go to, and the operands of the next tile, perhaps of the
// head that this thread will probably be given.
HWY_INLINE Ahead after_tile(const BackwardCall& call, const HeadTask& task, std::int64_t following, std::int64_t query,
                            std::int64_t key) {
  const AttentionShape& shape = call.shape;
  const std::int64_t width = shape.heads * shape.head_size;
  Ahead ahead(call.qkv.as<float>());
  const auto add = [&](const ConstElements& first, std::int64_t stride, std::int64_t begin) HWY_ATTR {
    ahead.add(region(first, stride, std::min<std::int64_t>(kBackwardTile, shape.tokens - begin), shape.head_size));
  };
  const auto add_part = [&](const ConstElements& qkv, const HeadTask& from, std::int64_t begin, int part)
                            HWY_ATTR { add(qkv_row(qkv, shape, from.batch, begin, part, from.head), 3 * width, begin); };
  if (!call.sums_apart() || query == key) add_part(call.d_qkv, task, query, 0);
  HeadTask next_task = task;
  std::int64_t next_query = query + kBackwardTile, next_key = key;
  if (next_query >= shape.tokens) {
    add_part(call.d_qkv, task, key, 1);
    add_part(call.d_qkv, task, key, 2);
    next_query = next_key = key + kBackwardTile;
    if (next_key >= shape.tokens) {
      if (following < 0) return ahead;
      next_task = head_task(shape, following);
      next_query = next_key = 0;
    }
    add_part(call.qkv, next_task, next_key, 1);
    add_part(call.qkv, next_task, next_key, 2);
  }
  add_part(call.qkv, next_task, next_query, 0);
  add(out_row(call.d_out, shape, next_task.batch, next_query, next_task.head), width, next_query);
  if (next_key == 0) add(out_row(call.out, shape, next_task.batch, next_query, next_task.head), width, next_query);
  return ahead;
}

// d_keys and d_values gain this tile's share; d_queries of the result takes its share at once.
template <Start kStart>
HWY_INLINE void backward_tile(const BackwardCall& call, const HeadTask& task, const MaskStream& stream, const BackwardScratch& s,
                              std::int64_t query_begin, std::int64_t key_begin, Ahead ahead) {
  const AttentionShape& shape = call.shape;
  const int depth = static_cast<int>(shape.head_size);
  const std::int64_t head = attention::padded_head(shape);
  const Visible tile{tile_size(query_begin, shape.tokens, kBackwardTile), tile_size(key_begin, shape.tokens, kBackwardTile),
                     static_cast<int>(std::min<std::int64_t>(query_begin - key_begin, kBackwardTile))};
  load_queries(call, task, s, query_begin, tile.queries, key_begin == 0);
  const Matrix queries{s.queries, head}, d_out{s.d_out, head}, scores{s.weights, kBackwardTile},
      d_scores{s.d_scores, kBackwardTile};
  multiply_scores(tile, depth, queries, {s.keys_t, kBackwardTile}, scores, ahead);
  multiply_scores(tile, depth, d_out, {s.values_t, kBackwardTile}, d_scores, ahead);
  const std::int64_t first_row = task.head * shape.tokens + query_begin;
  const Position position{static_cast<std::uint64_t>(first_row), static_cast<std::uint64_t>(shape.tokens),
                          static_cast<std::uint64_t>(key_begin)};
  const float* lse = call.lse + task.batch * shape.heads * shape.tokens + first_row;
  const auto gradient = stream.active ? softmax_gradient_tile<true> : softmax_gradient_tile<false>;
  gradient(tile, scores, d_scores, stream, position, lse, s.delta + query_begin, s.mask);
  multiply_weights<true, kStart>(tile, depth, scores, d_out, {s.d_values, head}, ahead);
  multiply_weights<true, kStart>(tile, depth, d_scores, queries, {s.d_keys, head}, ahead);
  multiply_weights<false, Start::zero>(tile, depth, d_scores, {s.keys, head}, {s.d_queries, head}, ahead);
  const auto add = key_begin == 0 ? write_floats<false> : write_floats<true>;
  for (int r = 0; r < tile.queries; ++r) {
    const Elements row = qkv_row(call.d_qkv, shape, task.batch, query_begin + r, 0, task.head);
    float* sum = call.sums_apart() ? s.sums + (query_begin + r) * shape.head_size : row.as<float>();
    add(s.d_queries + r * head, depth, attention::score_scale(shape), sum);
    // The last keys that a query sees.
    if (call.sums_apart() && query_begin == key_begin) write_row(sum, depth, 1.0f, row);
  }
}

// One head: key tiles ascending, and for each of them the query tiles ascending, so every sum has one order.
void backward_task(const BackwardCall& call, const SlotTask& slot, std::byte* scratch) {
  const AttentionShape& shape = call.shape;
  const HeadTask task = head_task(shape, slot.task);
  Carver carver(scratch);
  const BackwardScratch s(shape, carver, call.sums_apart());
  const MaskStream stream(call.dropout, task.batch);
  const std::int64_t stride = 3 * shape.heads * shape.head_size, head = attention::padded_head(shape);
  const int depth = static_cast<int>(shape.head_size);
  for (std::int64_t key = 0; key < shape.tokens; key += kBackwardTile) {
    const int keys = tile_size(key, shape.tokens, kBackwardTile);
    const Source key_rows{qkv_row(call.qkv, shape, task.batch, key, 1, task.head), stride};
    const Matrix packed{s.keys, head};
    pack_rows({qkv_row(call.qkv, shape, task.batch, key, 2, task.head), stride}, keys, depth, 1.0f, packed);
    pack_transposed(packed, keys, depth, {s.values_t, kBackwardTile});
    pack_rows(key_rows, keys, depth, 1.0f, packed);
    pack_transposed(packed, keys, depth, {s.keys_t, kBackwardTile});
    backward_tile<Start::zero>(call, task, stream, s, key, key, after_tile(call, task, slot.following, key, key));
    for (std::int64_t query = key + kBackwardTile; query < shape.tokens; query += kBackwardTile) {
      backward_tile<Start::add>(call, task, stream, s, query, key, after_tile(call, task, slot.following, query, key));
    }
    for (int r = 0; r < keys; ++r) {
      write_row(s.d_keys + r * head, depth, 1.0f, qkv_row(call.d_qkv, shape, task.batch, key + r, 1, task.head));
      write_row(s.d_values + r * head, depth, 1.0f, qkv_row(call.d_qkv, shape, task.batch, key + r, 2, task.head));
    }
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

Bytes attention_backward_scratch(const AttentionShape& shape, DType d_qkv, int threads) {
  return Bytes{slot_bytes<attention::BackwardScratch>(shape, d_qkv != DType::f32) *
               std::min<std::int64_t>(shape.batch * shape.heads, threads)};
}

void attention_forward(const AttentionShape& shape, const AttentionDropout& dropout, ConstElements qkv, Elements out, float* lse,
                       int threads, std::byte* scratch) {
  const attention::ForwardCall call{shape, dropout, qkv, out, lse};
  const std::int64_t slot_size = slot_bytes<attention::ForwardScratch>(shape);
  const auto run = &HWY_DYNAMIC_DISPATCH(forward_task);
  parallel_slots(forward_tasks(shape), threads, [&](const SlotTask& task) { run(call, task, scratch + task.slot * slot_size); });
}

void attention_backward(const AttentionShape& shape, const AttentionDropout& dropout, ConstElements qkv, ConstElements out,
                        const float* lse, ConstElements d_out, Elements d_qkv, int threads, std::byte* scratch) {
  const attention::BackwardCall call{shape, dropout, qkv, out, lse, d_out, d_qkv};
  const std::int64_t slot_size = slot_bytes<attention::BackwardScratch>(shape, call.sums_apart());
  const auto run = &HWY_DYNAMIC_DISPATCH(backward_task);
  parallel_slots(shape.batch * shape.heads, threads,
                 [&](const SlotTask& task) { run(call, task, scratch + task.slot * slot_size); });
}

}  // namespace plimsoll::cpu
#endif  // HWY_ONCE
