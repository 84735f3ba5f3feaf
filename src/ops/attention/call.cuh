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

struct AttentionExtents {
  std::int32_t tokens, heads, head_size;
  std::int32_t all_heads;  // heads of all samples
  float scale;             // factor of the scores

  __host__ __device__ __forceinline__ std::int32_t width() const { return heads * head_size; }
  __host__ __device__ __forceinline__ std::int32_t stride() const { return 3 * heads * head_size; }  // of rows of qkv
};

// The elements at which the rows of one head of one sample begin.
struct HeadRows {
  std::int64_t qkv, out, sums;  // `sums` and the like have one number for each row

  // The elements at which a token's row begins, in qkv and in out.
  __device__ __forceinline__ std::int64_t qkv_at(const AttentionExtents& e, std::int32_t token) const {
    return qkv + static_cast<std::int64_t>(token) * e.stride();
  }
  __device__ __forceinline__ std::int64_t out_at(const AttentionExtents& e, std::int32_t token) const {
    return out + static_cast<std::int64_t>(token) * e.width();
  }

  __device__ __forceinline__ HeadRows(const AttentionExtents& e, std::int32_t any_head) {
    const std::int64_t sample = any_head / e.heads, head = any_head % e.heads;
    qkv = (sample * e.tokens * 3 * e.heads + head) * e.head_size;
    out = (sample * e.tokens * e.heads + head) * e.head_size;
    sums = static_cast<std::int64_t>(any_head) * e.tokens;
  }
};

struct AttentionDropout {
  DropoutRule rule;
  const std::uint32_t* sample_ids = nullptr;
};

// The probabilities of one head that dropout keeps.
class HeadMask {
 public:
  __device__ __forceinline__ HeadMask(const AttentionExtents& e, const AttentionDropout& dropout, std::int32_t any_head)
      : rule_(dropout.rule),
        epoch_(dropout.sample_ids[any_head / e.heads * 2]),
        sample_(dropout.sample_ids[any_head / e.heads * 2 + 1]),
        tokens_(static_cast<std::uint64_t>(e.tokens)),
        first_(static_cast<std::uint64_t>(any_head % e.heads) * tokens_) {}

  // Bit i is the decision for key + i. Four keys from an element that is a multiple of four need four words, others eight.
  __device__ __forceinline__ unsigned four_keys(std::int32_t query, std::int32_t key) const {
    const std::uint64_t element = (first_ + static_cast<std::uint64_t>(query)) * tokens_ + static_cast<std::uint64_t>(key);
    const auto skip = static_cast<unsigned>(element % 4);
    unsigned kept = group(element / 4);
    if (skip != 0) kept = (kept | group(element / 4 + 1) << 4) >> skip;
    return kept;
  }

 private:
  __device__ __forceinline__ unsigned group(std::uint64_t index) const {
    const PhiloxWords words = rule_.words(index, epoch_, sample_);
    unsigned kept = 0;
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) kept |= (words[i] >> 8 >= rule_.threshold ? 1u : 0u) << i;
    return kept;
  }

  DropoutRule rule_;
  std::uint32_t epoch_, sample_;
  std::uint64_t tokens_, first_;
};

// The order of blocks. Heads go in groups whose rows fit into the cache. Within a group, the tiles with most work of all heads
// come first, so that no long tile comes last.
struct BlockOrder {
  std::int32_t all_heads, heads_together, tiles;

  BlockOrder(const AttentionExtents& e, std::int32_t tile) : all_heads(e.all_heads), tiles((e.tokens + tile - 1) / tile) {
    constexpr std::int64_t kCached = 16 << 20;
    const std::int64_t most = kCached / (std::int64_t{4} * e.tokens * e.head_size);  // two operands of 16 bits
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
