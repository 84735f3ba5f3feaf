#include "ops/cache/cache.h"

#include <algorithm>
#include <cmath>

#include "ops/attributes.h"
#include "ops/cases/cases.h"

namespace plimsoll::test {
namespace {

std::vector<Numbers> cache_rows(const ReferenceCall& call) {
  const Shape &rows = call.shape(0), &cache = call.shape(2);
  Numbers result = call.values[2];
  for (std::int64_t sample = 0; sample < rows[0]; ++sample) {
    const auto length = static_cast<std::int64_t>(call.values[1][extent(sample)]);
    for (std::int64_t token = std::max<std::int64_t>(0, length - cache[1]); token < length; ++token) {
      for (std::int64_t i = 0; i < rows[2]; ++i) {
        result[extent((sample * cache[1] + token % cache[1]) * rows[2] + i)] =
            call.values[0][extent((sample * rows[1] + token) * rows[2] + i)];
      }
    }
  }
  return {result};
}

std::vector<Numbers> cached_attention(const ReferenceCall& call) {
  const auto& a = call.attributes.as<ops::CachedAttentionAttributes>();
  const std::int64_t slots = call.shape(4)[1], size = call.shape(0)[2] / a.heads, width = size * a.kv_heads;
  const std::int64_t tokens = call.shape(0)[1];
  const double scale = a.scale == 0 ? 1 / std::sqrt(static_cast<double>(size)) : a.scale;
  Numbers out(call.values[0].size()), keys = call.values[4], values = call.values[5];
  for (std::int64_t row = 0; row < call.shape(0)[0] * tokens; ++row) {
    const std::int64_t sample = row / tokens;
    const auto position = static_cast<std::int64_t>(call.values[3][extent(row)]);
    const auto at = [&](std::int64_t p, std::int64_t i) { return extent((sample * slots + p % slots) * width + i); };
    for (std::int64_t i = 0; i < width; ++i) {
      keys[at(position, i)] = call.values[1][extent(row * width + i)];
      values[at(position, i)] = call.values[2][extent(row * width + i)];
    }
    const std::int64_t first = std::max<std::int64_t>(0, position - (a.window > 0 ? a.window : slots) + 1);
    for (std::int64_t head = 0; head < a.heads; ++head) {
      const std::int64_t base = head / (a.heads / a.kv_heads) * size, query = (row * a.heads + head) * size;
      Numbers p;
      for (std::int64_t seen = first; seen <= position; ++seen) {
        double score = 0;
        for (std::int64_t i = 0; i < size; ++i) score += call.values[0][extent(query + i)] * keys[at(seen, base + i)];
        p.push_back(score * scale);
      }
      const double top = *std::max_element(p.begin(), p.end());
      double sum = 0;
      for (double& x : p) sum += x = std::exp(x - top);
      for (std::int64_t seen = first; seen <= position; ++seen) {
        for (std::int64_t i = 0; i < size; ++i) {
          out[extent(query + i)] += p[extent(seen - first)] / sum * values[at(seen, base + i)];
        }
      }
    }
  }
  return {out, keys, values};
}

std::vector<Numbers> columns(const ReferenceCall& call) {
  const auto& a = call.attributes.as<ops::ColumnsAttributes>();
  const std::size_t width = extent(call.shape(0).last());
  Numbers result;
  for (std::size_t i = 0; i < call.values[0].size(); ++i) {
    const bool inside = i % width >= extent(a.begin) && i % width < extent(a.end);
    if (inside) result.push_back(call.values[0][i]);
  }
  return {result};
}

OpCase rows_case(Shape rows, std::int64_t slots) {
  const double most = static_cast<double>(rows[1]) + 1;
  const Shape batch{rows[0]}, cache{rows[0], slots, rows[2]};
  return {ops::NoAttributes{}, {f32(std::move(rows)), i32(batch, 0, most), f32(cache)}};
}

OpCase attention_case(std::int64_t batch, std::int64_t slots, std::int64_t heads, std::int64_t kv_heads, std::int64_t size,
                      double positions, std::int64_t window = 0, double scale = 0, std::int64_t tokens = 1) {
  const Shape q{batch, tokens, heads * size}, kv{batch, tokens, kv_heads * size}, cache{batch, slots, kv_heads * size};
  return {ops::CachedAttentionAttributes{heads, kv_heads, window, scale},
          {f32(q, {-2, 2}), f32(kv, {-2, 2}), f32(kv), i32({batch, tokens}, 0, positions), f32(cache, {-2, 2}), f32(cache)}};
}

}  // namespace

std::vector<OpCases> cache_cases() {
  const std::vector<OpCase> rows{rows_case({1, 1, 1}, 1), rows_case({3, 7, 5}, 9), rows_case({4, 33, 6}, 8),
                                 rows_case({2, 40, 16}, 40), timed(rows_case({8, 512, 192}, 1024))};
  // Rings have turned where positions pass the slots.
  const std::vector<OpCase> attention{attention_case(1, 1, 1, 1, 1, 1),
                                      attention_case(4, 9, 2, 1, 8, 9),
                                      attention_case(3, 200, 4, 2, 16, 200),
                                      attention_case(5, 70, 3, 3, 5, 70, 0, 0.3),
                                      attention_case(6, 20, 4, 1, 24, 90, 20),
                                      attention_case(6, 130, 2, 2, 8, 500, 100),
                                      attention_case(2, 30, 4, 2, 8, 30, 0, 0, 7),
                                      attention_case(3, 20, 3, 1, 24, 90, 20, 0, 33),
                                      timed(attention_case(8, 1024, 9, 3, 64, 1024)),
                                      timed(attention_case(1, 2048, 9, 3, 64, 2048, 0, 0, 64))};
  const std::vector<OpCase> parts{{ops::ColumnsAttributes{0, 1}, {f32({1, 1, 1})}},
                                  {ops::ColumnsAttributes{5, 12}, {f32({2, 7, 12})}},
                                  {ops::ColumnsAttributes{16, 48}, {f32({3, 48})}},
                                  timed({ops::ColumnsAttributes{768, 1536}, {f32({4, 1024, 2304})}})};
  return {{&ops::kCacheRows, cache_rows, rows, {}},
          {&ops::kCachedAttention, cached_attention, attention, {}},
          {&ops::kColumns, columns, parts, {}}};
}

}  // namespace plimsoll::test
