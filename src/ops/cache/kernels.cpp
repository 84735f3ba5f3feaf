#include "ops/cache/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/ceil_div.h"
#include "device/cpu/parallel.h"
#include "device/cpu/tiles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cache/kernels.cpp"
#include "hwy/foreach_target.h"

#include "device/cpu/floats-inl.h"
#include "hwy/highway.h"
#include "ops/softmax/exp-inl.h"

#ifndef PLIMSOLL_OPS_CACHE_KERNELS_ONCE_
#define PLIMSOLL_OPS_CACHE_KERNELS_ONCE_
namespace plimsoll::cpu::cache {

// Positions of a tile. All heads of a group use a tile together, so that a key is read from memory once.
inline constexpr std::int64_t kTile = 64;

struct Call {
  CacheShape shape;
  QkvRows rows;
  const std::int32_t* positions;
  float *keys, *values, *out;
};

inline std::int64_t group(const CacheShape& shape) { return shape.heads / shape.kv_heads; }
// Scratch of a task: scores [group, kTile] and two numbers of each head.
inline std::int64_t task_floats(const CacheShape& shape) { return round_up(group(shape) * (kTile + 2), std::int64_t{16}); }

}  // namespace plimsoll::cpu::cache
#endif

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

HWY_INLINE float dot_of(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, std::int64_t n) {
  Floats even = hn::Zero(F32()), odd = even;
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    even = hn::MulAdd(hn::LoadU(F32(), a + i), hn::LoadU(F32(), b + i), even);
    odd = hn::MulAdd(hn::LoadU(F32(), a + i + kLanes), hn::LoadU(F32(), b + i + kLanes), odd);
  }
  float sum = hn::GetLane(hn::SumOfLanes(F32(), hn::Add(even, odd)));
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// y += factor * x.
HWY_INLINE void add_scaled(float* HWY_RESTRICT y, const float* HWY_RESTRICT x, float factor, std::int64_t n) {
  const Floats f = hn::Set(F32(), factor);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    hn::StoreU(hn::MulAdd(f, hn::LoadU(F32(), x + i), hn::LoadU(F32(), y + i)), F32(), y + i);
  }
  for (; i < n; ++i) y[i] += factor * x[i];
}

HWY_INLINE void scale_row(float* HWY_RESTRICT y, float factor, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] *= factor;
}

void attend_token(const cache::Call& call, std::int64_t sample, std::int64_t head, std::int64_t token, float* scratch) {
  const CacheShape& shape = call.shape;
  const std::int64_t at = sample * shape.tokens + token, group = cache::group(shape);
  const std::int64_t size = shape.head_size, position = call.positions[at], row = shape.kv_heads * size;
  float* const out = call.out + (at * shape.heads + head * group) * size;
  std::memset(out, 0, static_cast<std::size_t>(group * size) * 4);
  const float* const q = call.rows.queries + at * call.rows.query_stride + head * group * size;
  float* const keys = call.keys + sample * shape.slots * row + head * size;
  float* const values = call.values + sample * shape.slots * row + head * size;
  const std::int64_t own = position % shape.slots * row;
  const auto bytes = static_cast<std::size_t>(size) * 4;
  std::memcpy(keys + own, call.rows.keys + at * call.rows.key_stride + head * size, bytes);
  std::memcpy(values + own, call.rows.values + at * call.rows.key_stride + head * size, bytes);
  float *const maxima = scratch + group * cache::kTile, *const sums = maxima + group;
  std::fill(maxima, maxima + group, std::numeric_limits<float>::lowest());
  std::fill(sums, sums + group, 0.0f);
  for (std::int64_t begin = std::max<std::int64_t>(0, position - shape.window + 1); begin <= position; begin += cache::kTile) {
    const std::int64_t count = std::min(cache::kTile, position + 1 - begin);
    for (std::int64_t i = 0; i < count; ++i) {
      const float* key = keys + (begin + i) % shape.slots * row;
      for (std::int64_t g = 0; g < group; ++g) scratch[g * cache::kTile + i] = dot_of(q + g * size, key, size) * shape.scale;
    }
    for (std::int64_t g = 0; g < group; ++g) {
      float* const scores = scratch + g * cache::kTile;
      const float top = std::max(maxima[g], *std::max_element(scores, scores + count));
      const float kept = hn::GetLane(exp_fp32(F32(), hn::Set(F32(), maxima[g] - top)));
      maxima[g] = top;
      // Whole vectors: a tile of scores holds them, and nothing past the last position is read again.
      for (std::int64_t i = 0; i < count; i += kLanes) {
        hn::StoreU(exp_fp32(F32(), hn::Sub(hn::LoadU(F32(), scores + i), hn::Set(F32(), top))), F32(), scores + i);
      }
      float sum = 0;
      for (std::int64_t i = 0; i < count; ++i) sum += scores[i];
      sums[g] = sums[g] * kept + sum;
      scale_row(out + g * size, kept, size);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const float* value = values + (begin + i) % shape.slots * row;
      for (std::int64_t g = 0; g < group; ++g) add_scaled(out + g * size, value, scratch[g * cache::kTile + i], size);
    }
  }
  for (std::int64_t g = 0; g < group; ++g) scale_row(out + g * size, 1.0f / sums[g], size);
}

void attend(const cache::Call& call, std::int64_t task, float* scratch) {
  const std::int64_t sample = task / call.shape.kv_heads, head = task % call.shape.kv_heads;
  for (std::int64_t token = 0; token < call.shape.tokens; ++token) attend_token(call, sample, head, token, scratch);
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {

HWY_EXPORT(attend);

void cache_rows(std::int64_t batch, std::int64_t tokens, std::int64_t stride, std::int64_t width, std::int64_t slots,
                const float* rows, const std::int32_t* lengths, float* cache) {
  for_rows(batch * slots, width, [&](std::int64_t slot_of_sample) {
    const std::int64_t sample = slot_of_sample / slots, slot = slot_of_sample % slots;
    const std::int64_t length = std::min<std::int64_t>(lengths[sample], tokens);
    if (slot >= length) return;
    const std::int64_t last = length - 1, token = last - (last - slot) % slots;  // the latest one of this slot
    std::memcpy(cache + slot_of_sample * width, rows + (sample * tokens + token) * stride, static_cast<std::size_t>(width) * 4);
  });
}

Bytes cached_attention_scratch(const CacheShape& shape, int threads) {
  return Bytes{4 * cache::task_floats(shape) * std::min<std::int64_t>(threads, shape.batch * shape.kv_heads)};
}

void cached_attention(const CacheShape& shape, const QkvRows& rows, const std::int32_t* positions, float* keys, float* values,
                      float* out, int threads, std::byte* scratch) {
  const cache::Call call{shape, rows, positions, keys, values, out};
  const auto run = &HWY_DYNAMIC_DISPATCH(attend);
  parallel_slots(shape.batch * shape.kv_heads, threads, [&](const SlotTask& task) {
    run(call, task.task, reinterpret_cast<float*>(scratch) + task.slot * cache::task_floats(shape));
  });
}

void gather_rows(std::int64_t rows, std::int64_t width, const float* x, const std::int32_t* index, float* out) {
  for_row_tiles(rows, width, [&](std::int64_t i, std::int64_t begin, std::int64_t end) {
    const float* row = x + index[i] * width;
    std::memcpy(out + i * width + begin, row + begin, static_cast<std::size_t>(end - begin) * sizeof(float));
  });
}

void columns(std::int64_t rows, std::int64_t width, std::int64_t begin, std::int64_t end, const float* x, float* y) {
  const std::int64_t part = end - begin;
  for_rows(rows, part,
           [&](std::int64_t row) { std::memcpy(y + row * part, x + row * width + begin, static_cast<std::size_t>(part) * 4); });
}

}  // namespace plimsoll::cpu
#endif  // HWY_ONCE
