// Attention of a few tokens to a cache, on the CPU. Buffers are fp32 and row-major; the caller owns all. A task is one head of
// keys and values of one sample, with the heads of queries that read it. Sums go by ascending position, so results depend neither
// on the number of threads nor on the offset of a ring. The bytes of a cache are read once for each token.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace plimsoll::cpu {

struct CacheShape {
  std::int64_t batch, tokens, slots, heads, kv_heads, head_size;
  std::int64_t window;  // at most the slots
  float scale;
};

// Copies the first `width` columns of rows [batch, tokens, stride] to cache [batch, slots, width]: the last rows of each sample
// before its length.
void cache_rows(std::int64_t batch, std::int64_t tokens, std::int64_t stride, std::int64_t width, std::int64_t slots,
                const float* rows, const std::int32_t* lengths, float* cache);

// Rows of queries, keys and values of each token; strides are elements from one token to the next.
struct QkvRows {
  const float *queries, *keys, *values;
  std::int64_t query_stride, key_stride;
};

// The scratch holds the scores of a task's heads, and their running sums.
Bytes cached_attention_scratch(const CacheShape& shape, int threads);
void cached_attention(const CacheShape& shape, const QkvRows& rows, const std::int32_t* positions, float* keys, float* values,
                      float* out, int threads, std::byte* scratch);

// out [rows, width] = x[index], for x [any number of rows, width].
void gather_rows(std::int64_t rows, std::int64_t width, const float* x, const std::int32_t* index, float* out);

// y [rows, end - begin] = x [rows, width] from column `begin` on.
void columns(std::int64_t rows, std::int64_t width, std::int64_t begin, std::int64_t end, const float* x, float* y);

}  // namespace plimsoll::cpu
