// The cut of attention into tiles, and the place of each tile in a thread's scratch. Sizes depend on the shape alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ops/attention/kernels.h"

namespace plimsoll::cpu::attention {

// Tiles are multiples of this: of every vector (up to 16 floats) and of every block of rows (6, 8, 12, 16).
inline constexpr int kTileStep = 48;
inline constexpr int kKeyTile = 96;              // keys of one tile
inline constexpr int kQueryTile = 48;            // forward: queries whose scores are in flight; divides kKeyTile
inline constexpr int kQueryBlock = 288;          // forward: queries of one task, which share the packed keys and values
inline constexpr int kBackwardTile = 96;         // backward: queries and keys of one tile
inline constexpr int kMaskSlack = 64;            // a row of the dropout mask is made in whole vectors and may begin within four
inline constexpr std::int64_t kColumnStep = 16;  // rows of packed tiles are padded to the widest vector

constexpr std::int64_t padded_head(const AttentionShape& shape) { return round_up(shape.head_size, kColumnStep); }

// Places 64-byte aligned arrays one after another; with a null base it only adds up their bytes.
class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}

  float* take(std::int64_t floats) {
    float* const p = base_ == nullptr ? nullptr : reinterpret_cast<float*>(base_ + used_);
    used_ += align_up(Bytes{floats * 4}, kCacheLine).n;
    return p;
  }
  std::int64_t used() const { return used_; }

 private:
  std::byte* base_;
  std::int64_t used_ = 0;
};

// Every task writes all of the last array of its scratch, for the audit.
struct ForwardScratch {
  float *queries, *output, *keys, *values, *scores, *sums, *mask, *alpha, *maximum;

  ForwardScratch(const AttentionShape& shape, Carver& carver) {
    const std::int64_t head = padded_head(shape), rows = block_rows(shape);
    queries = carver.take(rows * shape.head_size);   // [queries, head_size], scaled
    output = carver.take(rows * head);               // [queries, padded head]
    keys = carver.take(shape.head_size * kKeyTile);  // [head_size, keys]
    values = carver.take(kKeyTile * head);           // [keys, padded head]
    scores = carver.take(kQueryTile * kKeyTile);     // [queries, keys]
    sums = carver.take(rows * kColumnStep);          // [queries, lanes]
    mask = carver.take(kKeyTile + kMaskSlack);
    alpha = carver.take(kQueryTile);
    maximum = carver.take(rows);
  }

  static std::int64_t block_rows(const AttentionShape& shape) {
    return std::min<std::int64_t>(kQueryBlock, round_up(shape.tokens, kTileStep));
  }
};

struct BackwardScratch {
  float *queries, *d_out, *keys_t, *values_t, *keys, *weights, *d_scores, *d_queries, *d_keys, *d_values, *mask, *sums, *delta;

  BackwardScratch(const AttentionShape& shape, Carver& carver, bool sums_apart) {
    const std::int64_t head = padded_head(shape);
    queries = carver.take(kBackwardTile * head);              // [queries, padded head], scaled
    d_out = carver.take(kBackwardTile * head);                // [queries, padded head]
    keys_t = carver.take(shape.head_size * kBackwardTile);    // [head_size, keys]
    values_t = carver.take(shape.head_size * kBackwardTile);  // [head_size, keys]
    keys = carver.take(kBackwardTile * head);                 // [keys, padded head]
    weights = carver.take(kBackwardTile * kBackwardTile);     // [queries, keys]
    d_scores = carver.take(kBackwardTile * kBackwardTile);    // [queries, keys]
    d_queries = carver.take(kBackwardTile * head);            // [queries, padded head]
    d_keys = carver.take(kBackwardTile * head);               // [keys, padded head]
    d_values = carver.take(kBackwardTile * head);             // [keys, padded head]
    mask = carver.take(kBackwardTile + kMaskSlack);
    const std::int64_t rows = shape.group() * shape.tokens;
    sums = carver.take(sums_apart ? rows * shape.head_size : 0);  // [heads of the group, queries, head_size], of d_queries
    delta = carver.take(rows);                                    // d_out . out of each head and query
  }
};

}  // namespace plimsoll::cpu::attention
