// The arguments of attention kernels on a GPU: extents, places of a head's rows, the dropout mask, and a block's part of a head.
#pragma once

#include "device/cuda/kernels.cuh"
#include "ops/dropout/mask.cuh"
#include "tensor/dtype.h"

namespace plimsoll::cuda {

// Makes the compiler compute values that depend on x here, by a few instructions, instead of keeping them in registers around a
// loop.
__device__ __forceinline__ int computed_here(int x) {
#ifdef __CUDACC__
  asm volatile("" : "+r"(x));
#endif
  return x;
}

// The window of queries that see all keys up to their own.
inline constexpr std::int32_t kNoWindow = 1 << 30;

// Several heads of queries read one head of keys and values: head h reads head h / group.
struct AttentionExtents {
  std::int32_t batch, tokens, heads, group, head_size;
  std::int32_t query_stride, key_stride;   // elements from one token's queries to the next, and of keys and values
  std::int32_t window = kNoWindow;         // keys that a query sees, its own included
  const std::int32_t* segments = nullptr;  // [batch, tokens]: a query sees keys with its own number; null: all
  float scale = 1;                         // factor of the scores

  __host__ __device__ __forceinline__ std::int32_t width() const { return heads * head_size; }
  __host__ __device__ __forceinline__ std::int32_t all_heads() const { return batch * heads; }
};

// The elements at which the rows begin that belong to one head of queries of one sample.
struct HeadRows {
  std::int64_t queries, keys, out, sums;  // `sums` and the like have one number for each row

  // The elements at which a token's row begins, in queries, in keys and values, and in out.
  __device__ __forceinline__ std::int64_t query_at(const AttentionExtents& e, std::int32_t token) const {
    return queries + static_cast<std::int64_t>(token) * e.query_stride;
  }
  __device__ __forceinline__ std::int64_t key_at(const AttentionExtents& e, std::int32_t token) const {
    return keys + static_cast<std::int64_t>(token) * e.key_stride;
  }
  __device__ __forceinline__ std::int64_t out_at(const AttentionExtents& e, std::int32_t token) const {
    return out + static_cast<std::int64_t>(token) * e.width();
  }

  // `any_head`: number among the heads of queries of all samples.
  __device__ __forceinline__ HeadRows(const AttentionExtents& e, std::int32_t any_head) {
    const std::int64_t sample = any_head / e.heads, head = any_head % e.heads;
    queries = sample * e.tokens * e.query_stride + head * e.head_size;
    keys = sample * e.tokens * e.key_stride + head / e.group * e.head_size;
    out = (sample * e.tokens * e.heads + head) * e.head_size;
    sums = static_cast<std::int64_t>(any_head) * e.tokens;
  }
};

// Queries, keys and values, or their gradients.
template <class P>
struct OfOperands {
  P queries, keys, values;
};

struct AttentionDropout {
  DropoutRule rule;
  bool tokens = false;  // sample_ids are [batch, tokens, 3] = {epoch, sample, position}, else [batch, 2]
  const std::uint32_t* sample_ids = nullptr;
};

// The probabilities of one head that dropout keeps. With ids of tokens, query and key count from the begin of the query's sample.
class HeadMask {
 public:
  __device__ __forceinline__ HeadMask(const AttentionExtents& e, const AttentionDropout& dropout, std::int32_t any_head)
      : rule_(dropout.rule), tokens_(e.tokens), first_(static_cast<std::int64_t>(any_head % e.heads) * e.tokens) {
    const std::int64_t sample = any_head / e.heads;
    const std::uint32_t* id = dropout.sample_ids + (dropout.tokens ? 3 * e.tokens : 2) * sample;
    if (dropout.tokens) {
      of_tokens_ = id;
    } else {
      epoch_ = id[0], sample_ = id[1];
    }
  }

  // Bit i is the decision for key + i. Four keys from an element that is a multiple of four need four words, others eight.
  __device__ __forceinline__ unsigned four_keys(std::int32_t query, std::int32_t key) const {
    std::uint32_t epoch = epoch_, sample = sample_;
    int before = 0;  // number of keys that belong to other samples
    if (of_tokens_ != nullptr) {
      const std::uint32_t* id = of_tokens_ + 3 * static_cast<std::int64_t>(query < tokens_ ? query : tokens_ - 1);
      epoch = id[0], sample = id[1];
      key -= query;
      query = static_cast<std::int32_t>(id[2]);
      key += query;
      before = key >= 0 ? 0 : key < -4 ? 4 : -key;
    }
    const std::int64_t element = (first_ + query) * tokens_ + key;
    const auto skip = static_cast<unsigned>(element & 3);
    unsigned kept = words(element >> 2, epoch, sample);
    if (skip != 0) kept = (kept | words((element >> 2) + 1, epoch, sample) << 4) >> skip;
    return kept >> before << before;
  }

 private:
  __device__ __forceinline__ unsigned words(std::int64_t group, std::uint32_t epoch, std::uint32_t sample) const {
    const PhiloxWords of_group = rule_.words(static_cast<std::uint64_t>(group), epoch, sample);
    unsigned kept = 0;
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) kept |= (of_group[i] >> 8 >= rule_.threshold ? 1u : 0u) << i;
    return kept;
  }

  DropoutRule rule_;
  std::uint32_t epoch_ = 0, sample_ = 0;
  const std::uint32_t* of_tokens_ = nullptr;
  std::int32_t tokens_;
  std::int64_t first_;
};

// The order of blocks. Heads go together whose rows fit into the cache. Among these, the tiles with most work of all heads come
// first, so that no long tile comes last.
struct BlockOrder {
  std::int32_t all_heads, heads_together, tiles;

  // `of_block`: heads of queries in a block, which are one head here.
  BlockOrder(const AttentionExtents& e, std::int32_t tile, std::int32_t of_block = 1)
      : all_heads(e.all_heads() / of_block), tiles((e.tokens + tile - 1) / tile) {
    constexpr std::int64_t kCached = 16 << 20;
    const std::int64_t most = kCached / (std::int64_t{4} * e.tokens * e.head_size * of_block);  // two operands of 16 bits
    heads_together = static_cast<std::int32_t>(most < 1 ? 1 : most < all_heads ? most : all_heads);
  }

  unsigned blocks() const { return static_cast<unsigned>(all_heads) * static_cast<unsigned>(tiles); }
};

struct BlockWork {
  std::int32_t head, turn;  // number among all heads; number of the tile, by descending work

  __device__ __forceinline__ BlockWork(const BlockOrder& order, std::uint32_t block) {
    const std::uint32_t of_group = static_cast<std::uint32_t>(order.heads_together) * static_cast<std::uint32_t>(order.tiles);
    const std::uint32_t first = block / of_group * static_cast<std::uint32_t>(order.heads_together);
    const std::uint32_t rest = static_cast<std::uint32_t>(order.all_heads) - first, within = block % of_group;
    const std::uint32_t together = rest < static_cast<std::uint32_t>(order.heads_together) ? rest : order.heads_together;
    head = static_cast<std::int32_t>(first + within % together);
    turn = static_cast<std::int32_t>(within / together);
  }
};

// Elements of a type known at run time.
struct Elements {
  const void* data;
  DType type;

  // Calls f with a pointer of the elements' type.
  template <class F>
  __device__ __forceinline__ void visit(F f) const {
    if (type == DType::bf16) {
      f(static_cast<const Bf16*>(data));
    } else if (type == DType::f16) {
      f(static_cast<const F16*>(data));
    } else {
      f(static_cast<const float*>(data));
    }
  }
  __device__ __forceinline__ float at(std::int64_t i) const {
    float x;
    visit([&](const auto* from) { x = widen(from[i]); });
    return x;
  }
  // `i` is a multiple of eight.
  __device__ __forceinline__ Pack<float, 8> eight_at(std::int64_t i) const {
    Pack<float, 8> x;
    visit([&]<class T>(const T* from) {
      constexpr int kTogether = 16 / sizeof(T);
#pragma unroll
      for (int first = 0; first < 8; first += kTogether) {
        const Pack<T> part = load_pack(from + i + first);
#pragma unroll
        for (int e = 0; e < kTogether; ++e) x.at[first + e] = widen(part.at[e]);
      }
    });
    return x;
  }
};

__device__ __forceinline__ void store_element(float x, void* to, DType type, std::int64_t i) {
  if (type == DType::bf16) {
    static_cast<Bf16*>(to)[i] = narrow<Bf16>(x);
  } else if (type == DType::f16) {
    static_cast<F16*>(to)[i] = narrow<F16>(x);
  } else {
    static_cast<float*>(to)[i] = x;
  }
}

}  // namespace plimsoll::cuda
