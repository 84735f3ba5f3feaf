#include "ops/cache/cache.h"

#include <algorithm>
#include <cmath>

#include "ops/attributes.h"
#include "ops/cases/cases.h"

namespace plimsoll::test {
namespace {

std::vector<Numbers> cache_rows(const ReferenceCall& call) {
  const std::int64_t begin = call.attributes.as<ops::CacheRowsAttributes>().begin;
  const Shape &rows = call.shape(0), &cache = call.shape(2);
  Numbers result = call.values[2];
  for (std::int64_t sample = 0; sample < rows[0]; ++sample) {
    const auto length = static_cast<std::int64_t>(call.values[1][extent(sample)]);
    for (std::int64_t token = std::max<std::int64_t>(0, length - cache[1]); token < length; ++token) {
      for (std::int64_t i = 0; i < cache[2]; ++i) {
        result[extent((sample * cache[1] + token % cache[1]) * cache[2] + i)] =
            call.values[0][extent((sample * rows[1] + token) * rows[2] + begin + i)];
      }
    }
  }
  return {result};
}

std::vector<Numbers> cached_attention(const ReferenceCall& call) {
  const auto& a = call.attributes.as<ops::CachedAttentionAttributes>();
  const std::size_t operands = a.layout.operands();
  const Shape queries = a.layout.queries(call.shape(0));
  const std::int64_t slots = call.shape(operands + 1)[1], size = a.layout.head_size(call.shape(0)),
                     width = size * a.layout.kv_heads;
  const std::int64_t tokens = queries[1];
  const double scale = a.scale == 0 ? 1 / std::sqrt(static_cast<double>(size)) : a.scale;
  const auto operand = [&](std::int64_t part, std::int64_t row, std::int64_t i) {
    if (a.layout.separate) return call.values[extent(part)][extent(row * (part == 0 ? queries[2] : width) + i)];
    return call.values[0][extent(row * (queries[2] + 2 * width) + (part == 0 ? 0 : queries[2] + (part - 1) * width) + i)];
  };
  Numbers out(extent(queries.elements())), keys = call.values[operands + 1], values = call.values[operands + 2];
  for (std::int64_t row = 0; row < queries[0] * tokens; ++row) {
    const std::int64_t sample = row / tokens;
    const auto position = static_cast<std::int64_t>(call.values[operands][extent(row)]);
    const auto at = [&](std::int64_t p, std::int64_t i) { return extent((sample * slots + p % slots) * width + i); };
    for (std::int64_t i = 0; i < width; ++i) {
      keys[at(position, i)] = operand(1, row, i);
      values[at(position, i)] = operand(2, row, i);
    }
    const std::int64_t first = std::max<std::int64_t>(0, position - (a.window > 0 ? a.window : slots) + 1);
    for (std::int64_t head = 0; head < a.layout.heads; ++head) {
      const std::int64_t base = head / (a.layout.heads / a.layout.kv_heads) * size, query = (row * a.layout.heads + head) * size;
      Numbers p;
      for (std::int64_t seen = first; seen <= position; ++seen) {
        double score = 0;
        for (std::int64_t i = 0; i < size; ++i) score += operand(0, row, head * size + i) * keys[at(seen, base + i)];
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

std::vector<Numbers> gather_rows(const ReferenceCall& call) {
  const Numbers &x = call.values[0], &index = call.values[1];
  const std::size_t width = extent(call.shape(0)[2]);
  Numbers rows(index.size() * width);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i] = x[static_cast<std::size_t>(index[i / width]) * width + i % width];
  }
  return {rows};
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

OpCase rows_case(const Shape& rows, std::int64_t slots, std::int64_t begin = 0, std::int64_t width = 0) {
  const double most = static_cast<double>(rows[1]) + 1;
  const Shape cache{rows[0], slots, width == 0 ? rows[2] : width};
  return {ops::CacheRowsAttributes{begin}, {f32(rows), i32(Shape{rows[0]}, 0, most), f32(cache)}};
}

OpCase attention_case(std::int64_t batch, std::int64_t slots, std::int64_t heads, std::int64_t kv_heads, std::int64_t size,
                      double positions, std::int64_t window = 0, double scale = 0, std::int64_t tokens = 1,
                      bool separate = true) {
  const std::int64_t width = heads * size, kv_width = kv_heads * size;
  const Shape q{batch, tokens, width}, kv{batch, tokens, kv_width}, cache{batch, slots, kv_width};
  std::vector<CaseInput> inputs{f32(q, {-2, 2}), f32(kv, {-2, 2}), f32(kv)};
  if (!separate) inputs = {f32({batch, tokens, width + 2 * kv_width}, {-2, 2})};
  for (CaseInput input : {i32({batch, tokens}, 0, positions), f32(cache, {-2, 2}), f32(cache)}) inputs.push_back(input);
  return {ops::CachedAttentionAttributes{{heads, kv_heads, separate}, window, scale}, inputs};
}

OpCase gather_case(const Shape& x, std::int64_t rows) {
  return {ops::NoAttributes{}, {f32(x), i32(Shape{rows}, 0, static_cast<double>(x[0] * x[1]))}};
}

}  // namespace

std::vector<OpCases> cache_cases() {
  const std::vector<OpCase> rows{rows_case({1, 1, 1}, 1),
                                 rows_case({3, 7, 5}, 9),
                                 rows_case({4, 33, 6}, 8),
                                 rows_case({2, 40, 16}, 40),
                                 rows_case({4, 33, 18}, 8, 6, 6),
                                 rows_case({2, 9, 7}, 12, 5, 2),
                                 timed(rows_case({8, 512, 192}, 1024))};
  // Rings have turned if positions exceed the number of slots.
  const std::vector<OpCase> attention{attention_case(1, 1, 1, 1, 1, 1),
                                      attention_case(4, 9, 2, 1, 8, 9),
                                      attention_case(3, 200, 4, 2, 16, 200),
                                      attention_case(5, 70, 3, 3, 5, 70, 0, 0.3),
                                      attention_case(6, 20, 4, 1, 24, 90, 20),
                                      attention_case(6, 130, 2, 2, 8, 500, 100),
                                      attention_case(2, 30, 4, 2, 8, 30, 0, 0, 7),
                                      attention_case(3, 20, 3, 1, 24, 90, 20, 0, 33),
                                      attention_case(6, 20, 4, 1, 24, 90, 20, 0, 1, false),
                                      attention_case(2, 30, 4, 4, 8, 30, 0, 0, 7, false),
                                      timed(attention_case(8, 1024, 9, 3, 64, 1024)),
                                      timed(attention_case(1, 2048, 9, 3, 64, 2048, 0, 0, 64))};
  const std::vector<OpCase> parts{{ops::ColumnsAttributes{0, 1}, {f32({1, 1, 1})}},
                                  {ops::ColumnsAttributes{5, 12}, {f32({2, 7, 12})}},
                                  {ops::ColumnsAttributes{16, 48}, {f32({3, 48})}},
                                  timed({ops::ColumnsAttributes{768, 1536}, {f32({4, 1024, 2304})}})};
  const std::vector<OpCase> gathers{gather_case({1, 1, 1}, 1), gather_case({2, 7, 65}, 5), gather_case({3, 65, 7}, 40),
                                    gather_case({2, 90, 2}, 2100), timed(gather_case({4, 1024, 768}, 8192))};
  return {{&ops::kCacheRows, cache_rows, rows, {}},
          {&ops::kCachedAttention, cached_attention, attention, {}},
          {&ops::kColumns, columns, parts, {}},
          {&ops::kGatherRows, gather_rows, gathers, {}}};
}

}  // namespace plimsoll::test
