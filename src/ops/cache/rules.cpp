#include <fmt/core.h>

#include "ops/attributes.h"
#include "ops/cache/cache.h"
#include "ops/families.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

constexpr const char* kForward = "it serves generation and forward passes, which have no backward pass";

void require_cache(const ValueType& cache, std::int64_t batch, std::int64_t width, std::string_view where) {
  const Shape& shape = cache.shape;
  require(cache.dtype == DType::f32 && shape.rank() == 3 && shape[0] == batch && shape[2] == width, where,
          fmt::format("a cache is {}", to_text(cache)), fmt::format("f32({}, slots, {})", batch, width));
}

std::vector<ValueType> infer_rows(const Attributes& any, TypeSpan inputs) {
  require_inputs(inputs, 3, "cache_rows");
  require_dtype(inputs.first(1), DType::f32, "cache_rows");
  const Shape &rows = inputs[0].shape, &cache = inputs[2].shape;
  require(rows.rank() == 3, "cache_rows", "the rows are " + to_text(rows), "pass (batch, tokens, width)");
  require_type(inputs[1], {DType::i32, Shape{rows[0]}}, "cache_rows", "the lengths");
  const std::int64_t begin = any.as<CacheRowsAttributes>().begin;
  require_cache(inputs[2], rows[0], cache.rank() == 3 && begin + cache[2] <= rows[2] ? cache[2] : rows[2] - begin, "cache_rows");
  return {inputs[2]};
}

Cost cost_of_copy(const Attributes&, TypeSpan inputs, TypeSpan) {
  const Shape& rows = inputs[0].shape;
  return {0, 2.0 * static_cast<double>(dense_bytes({rows[0], rows[1], inputs[2].shape[2]}, DType::f32))};
}

// The cached keys and values are the last inputs.
std::vector<ValueType> infer_attention(const Attributes& any, TypeSpan inputs) {
  constexpr const char* kWhere = "cached_attention";
  const auto& a = any.as<CachedAttentionAttributes>();
  a.layout.require(inputs, 3, kWhere);
  const std::size_t operands = a.layout.operands();
  require_dtype(inputs.first(operands), DType::f32, kWhere);
  const Shape& first = inputs[0].shape;
  require_type(inputs[operands], {DType::i32, {first[0], first[1]}}, kWhere, "the positions");
  const ValueType &keys = inputs[operands + 1], &values = inputs[operands + 2];
  for (const ValueType& cache : {keys, values}) require_cache(cache, first[0], a.layout.keys(first)[2], kWhere);
  require(keys.shape == values.shape, kWhere, "the two caches differ", "caches of one shape");
  require(a.window >= 0 && a.window <= keys.shape[1], kWhere,
          fmt::format("the window is {}, the cache has {} slots", a.window, keys.shape[1]), "a slot for each position");
  return {{DType::f32, a.layout.queries(first)}, keys, values};
}

std::vector<Alias> over_caches(const Attributes& any) {
  const std::size_t keys = any.as<CachedAttentionAttributes>().layout.operands() + 1;
  return {{keys, 1, AliasKind::updates}, {keys + 1, 2, AliasKind::updates}};
}

Cost cost_of_attention(const Attributes& any, TypeSpan, TypeSpan outputs) {
  const auto& a = any.as<CachedAttentionAttributes>();
  const Shape& cache = outputs[1].shape;
  const double pairs = static_cast<double>(outputs[0].shape.elements()) * static_cast<double>(cache[1]);
  const double bytes = 2.0 * static_cast<double>(dense_bytes(cache, DType::f32));
  return {4 * pairs, bytes * static_cast<double>(a.window > 0 ? a.window : cache[1]) / static_cast<double>(cache[1])};
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

std::vector<ValueType> infer_gather(const Attributes&, TypeSpan inputs) {
  require_inputs(inputs, 2, "gather_rows");
  const Shape& x = inputs[0].shape;
  require_dtype(inputs.first(1), DType::f32, "gather_rows");
  require(x.rank() == 3, "gather_rows", "x is " + to_text(x), "pass (batch, tokens, width)");
  const Shape& index = inputs[1].shape;
  require(inputs[1].dtype == DType::i32 && index.rank() == 1, "gather_rows", "the index is " + to_text(inputs[1]),
          "pass i32(rows)");
  return {{DType::f32, {index[0], x[2]}}};
}

Cost cost_of_part(const Attributes&, TypeSpan, TypeSpan outputs) { return {0, 2 * bytes_touched({}, outputs)}; }

}  // namespace

const OpDef kCacheRows{.name = "cache_rows",
                       .infer = infer_rows,
                       .cost = cost_of_copy,
                       .not_differentiable = kForward,
                       .aliases = updates<2>,
                       .replayable = false};
const OpDef kCachedAttention{.name = "cached_attention",
                             .infer = infer_attention,
                             .cost = cost_of_attention,
                             .not_differentiable = kForward,
                             .aliases = over_caches,
                             .replayable = false};
const OpDef kColumns{.name = "columns", .infer = infer_columns, .cost = cost_of_part, .not_differentiable = kForward};
const OpDef kGatherRows{.name = "gather_rows", .infer = infer_gather, .cost = cost_of_part, .not_differentiable = kForward};

OpList cache_ops() { return {{&kCacheRows}, {&kCachedAttention}, {&kColumns}, {&kGatherRows}}; }

ValueId cache_rows(GraphBuilder& builder, ValueId rows, std::int64_t begin, ValueId lengths, ValueId cache, std::string name) {
  return builder.add1(kCacheRows, CacheRowsAttributes{begin}, {rows, lengths, cache}, std::move(name));
}

ValueId cached_attention(GraphBuilder& builder, std::vector<ValueId> qkv, ValueId positions, ValueId& keys, ValueId& values,
                         const CachedAttentionAttributes& attributes) {
  qkv.insert(qkv.end(), {positions, keys, values});
  const auto outputs = builder.add(kCachedAttention, attributes, std::move(qkv), {"attended", "keys", "values"});
  keys = outputs[1], values = outputs[2];
  return outputs[0];
}

ValueId gather_rows(GraphBuilder& builder, ValueId x, ValueId index, std::string name) {
  return builder.add1(kGatherRows, NoAttributes{}, {x, index}, std::move(name));
}

ValueId columns(GraphBuilder& builder, ValueId x, std::int64_t begin, std::int64_t end, std::string name) {
  return builder.add1(kColumns, ColumnsAttributes{begin, end}, {x}, std::move(name));
}

}  // namespace plimsoll::ops
