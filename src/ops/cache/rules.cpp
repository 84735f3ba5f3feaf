#include <fmt/core.h>

#include "ops/attributes.h"
#include "ops/cache/cache.h"
#include "ops/check.h"
#include "ops/families.h"

namespace plimsoll::ops {
namespace {

constexpr const char* kForward = "it serves generation, which has no backward pass";

void require_cache(const ValueType& cache, std::int64_t batch, std::int64_t width, std::string_view where) {
  const Shape& shape = cache.shape;
  require(cache.dtype == DType::f32 && shape.rank() == 3 && shape[0] == batch && shape[2] == width, where,
          fmt::format("a cache is {}", to_text(cache)), fmt::format("f32({}, slots, {})", batch, width));
}

std::vector<ValueType> infer_rows(const Attributes&, TypeSpan inputs) {
  require_inputs(inputs, 3, "cache_rows");
  require_dtype(inputs.first(1), DType::f32, "cache_rows");
  const Shape& rows = inputs[0].shape;
  require(rows.rank() == 3, "cache_rows", "the rows are " + to_text(rows), "pass (batch, tokens, width)");
  require_type(inputs[1], {DType::i32, Shape{rows[0]}}, "cache_rows", "the lengths");
  require_cache(inputs[2], rows[0], rows[2], "cache_rows");
  return {inputs[2]};
}

std::vector<Alias> over_third(const Attributes&) { return {{2, 0, AliasKind::updates}}; }

Cost cost_of_copy(const Attributes&, TypeSpan inputs, TypeSpan) {
  return {0, 2.0 * static_cast<double>(dense_bytes(inputs[0].shape, inputs[0].dtype))};
}

std::vector<ValueType> infer_attention(const Attributes& any, TypeSpan inputs) {
  constexpr const char* kWhere = "cached_attention";
  const auto& a = any.as<CachedAttentionAttributes>();
  require_inputs(inputs, 6, kWhere);
  require_dtype(inputs.first(3), DType::f32, kWhere);
  const Shape& q = inputs[0].shape;
  require(a.heads > 0 && a.kv_heads > 0 && a.heads % a.kv_heads == 0, kWhere,
          fmt::format("{} heads of queries read {} of keys and values", a.heads, a.kv_heads),
          "a number of heads that is a multiple of that of keys and values");
  require(q.rank() == 3 && q.last() % a.heads == 0, kWhere, fmt::format("the queries are {} for {} heads", to_text(q), a.heads),
          "pass (batch, tokens, heads * head_size)");
  const std::int64_t width = q.last() / a.heads * a.kv_heads;
  for (const std::size_t i : {1, 2}) require_type(inputs[i], {DType::f32, {q[0], q[1], width}}, kWhere, "keys or values");
  require_type(inputs[3], {DType::i32, {q[0], q[1]}}, kWhere, "the positions");
  for (const std::size_t i : {4, 5}) require_cache(inputs[i], q[0], width, kWhere);
  require(inputs[4].shape == inputs[5].shape, kWhere, "the two caches differ", "caches of one shape");
  require(a.window >= 0 && a.window <= inputs[4].shape[1], kWhere,
          fmt::format("the window is {}, the cache has {} slots", a.window, inputs[4].shape[1]), "a slot for each position");
  return {inputs[0], inputs[4], inputs[5]};
}

std::vector<Alias> over_caches(const Attributes&) { return {{4, 1, AliasKind::updates}, {5, 2, AliasKind::updates}}; }

Cost cost_of_attention(const Attributes& any, TypeSpan inputs, TypeSpan) {
  const auto& a = any.as<CachedAttentionAttributes>();
  const double pairs = static_cast<double>(inputs[0].shape.elements()) * static_cast<double>(inputs[4].shape[1]);
  const double bytes = 2.0 * static_cast<double>(dense_bytes(inputs[4].shape, DType::f32));
  return {4 * pairs,
          bytes * static_cast<double>(a.window > 0 ? a.window : inputs[4].shape[1]) / static_cast<double>(inputs[4].shape[1])};
}

std::vector<ValueType> infer_columns(const Attributes& any, TypeSpan inputs) {
  const auto& a = any.as<ColumnsAttributes>();
  require_inputs(inputs, 1, "columns");
  require_dtype(inputs, DType::f32, "columns");
  Shape shape = inputs[0].shape;
  require(shape.rank() >= 1 && a.begin >= 0 && a.begin < a.end && a.end <= shape.last(), "columns",
          fmt::format("[{}, {}) of {}", a.begin, a.end, to_text(shape)), "a part of the last axis");
  shape[shape.rank() - 1] = a.end - a.begin;
  return {{DType::f32, shape}};
}

Cost cost_of_columns(const Attributes&, TypeSpan, TypeSpan outputs) { return {0, 2 * bytes_touched({}, outputs)}; }

}  // namespace

const OpDef kCacheRows{.name = "cache_rows",
                       .infer = infer_rows,
                       .cost = cost_of_copy,
                       .not_differentiable = kForward,
                       .aliases = over_third,
                       .replayable = false};
const OpDef kCachedAttention{.name = "cached_attention",
                             .infer = infer_attention,
                             .cost = cost_of_attention,
                             .not_differentiable = kForward,
                             .aliases = over_caches,
                             .replayable = false};
const OpDef kColumns{.name = "columns", .infer = infer_columns, .cost = cost_of_columns, .not_differentiable = kForward};

OpList cache_ops() { return {{&kCacheRows}, {&kCachedAttention}, {&kColumns}}; }

ValueId cache_rows(GraphBuilder& builder, ValueId rows, ValueId lengths, ValueId cache, std::string name) {
  return builder.add1(kCacheRows, NoAttributes{}, {rows, lengths, cache}, std::move(name));
}

ValueId cached_attention(GraphBuilder& builder, ValueId q, ValueId k, ValueId v, ValueId positions, ValueId& keys,
                         ValueId& values, const CachedAttentionAttributes& attributes) {
  const auto outputs =
      builder.add(kCachedAttention, attributes, {q, k, v, positions, keys, values}, {"attended", "keys", "values"});
  keys = outputs[1], values = outputs[2];
  return outputs[0];
}

ValueId columns(GraphBuilder& builder, ValueId x, std::int64_t begin, std::int64_t end, std::string name) {
  return builder.add1(kColumns, ColumnsAttributes{begin, end}, {x}, std::move(name));
}

}  // namespace plimsoll::ops
