// Attention of a few tokens to what a cache holds, on the CPU. Buffers are fp32, dense and row-major; the caller owns all. A
// task is one head of keys and values of one sample, with the heads of queries that read it; sums go by ascending position, so
// results depend neither on the number of threads nor on where a ring has turned to. The bytes of a cache are read once for each
// token.
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

// rows [batch, tokens, width] -> cache [batch, slots, width]: of each sample the last rows before its length.
void cache_rows(std::int64_t batch, std::int64_t tokens, std::int64_t width, std::int64_t slots, const float* rows,
                const std::int32_t* lengths, float* cache);

// For each task the scores of its heads, and their running sums.
Bytes cached_attention_scratch(const CacheShape& shape, int threads);
void cached_attention(const CacheShape& shape, const float* q, const float* k, const float* v, const std::int32_t* positions,
                      float* keys, float* values, float* out, int threads, std::byte* scratch);

// y [rows, end - begin] = x [rows, width] from column `begin` on.
void columns(std::int64_t rows, std::int64_t width, std::int64_t begin, std::int64_t end, const float* x, float* y);

}  // namespace plimsoll::cpu
