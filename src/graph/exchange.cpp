#include "graph/exchange.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/ceil_div.h"
#include "base/error.h"

namespace plimsoll {
namespace {

constexpr const char* kAfterGradients = "exchanges are inserted after the gradients";
constexpr std::int64_t kTile = 1 << 15;  // ops::kNormTile

[[noreturn]] void fail(const char* op, const std::string& what) { throw internal_error(op, what); }

void require_cuts(const ExchangeAttributes& a, std::int64_t elements, const char* op) {
  const bool sound = a.ranks() >= 1 && a.rank >= 0 && a.rank < a.ranks() && a.cuts.front() == 0 && a.cuts.back() == elements &&
                     std::ranges::is_sorted(a.cuts);
  if (!sound) fail(op, fmt::format("the bounds of its shards do not cover {} elements", elements));
}

template <const char* const* kName>
std::vector<ValueType> infer_in_place(const Attributes& any, TypeSpan inputs) {
  require_cuts(any.as<ExchangeAttributes>(), inputs[0].shape.elements(), *kName);
  return {inputs[0]};
}

constexpr const char *kSumName = "sum_shards", *kGatherName = "gather_shards";

std::vector<ValueType> infer_reduced(const Attributes& any, TypeSpan inputs) {
  const auto& a = any.as<ExchangeAttributes>();
  require_cuts(a, inputs[0].shape.elements(), "reduce_shards");
  const std::int64_t held = std::max<std::int64_t>(1, a.elements(a.rank));
  const bool fits = inputs.size() == 2 && inputs[1].shape.elements() == held && inputs[1].dtype == inputs[0].dtype;
  if (!fits) fail("reduce_shards", fmt::format("its sum is not one of {} elements", held));
  return {inputs[1]};
}

std::vector<ValueType> infer_fetched(const Attributes& any, TypeSpan inputs) {
  const auto& a = any.as<ExchangeAttributes>();
  require_cuts(a, a.shape.elements(), "fetch_shards");
  const bool rounds = inputs[0].dtype == DType::f32 && (a.dtype == DType::bf16 || a.dtype == DType::f16);
  if (inputs[0].dtype != a.dtype && !rounds) fail("fetch_shards", "it cannot make its type");
  if (inputs[0].shape.elements() != a.elements(a.rank)) fail("fetch_shards", "its input is not the own shard");
  return {{a.dtype, a.shape}};
}

std::vector<ValueType> infer_refreshed(const Attributes& any, TypeSpan inputs) {
  if (inputs.size() < 2) fail("refresh_shards", "it needs a shard and the whole");
  if (infer_fetched(any, inputs.first(1)).front() != inputs[1]) fail("refresh_shards", "the whole has another type");
  return {inputs[1]};
}

std::vector<ValueType> infer_values(const Attributes& any, TypeSpan inputs) {
  const auto& a = any.as<ExchangeAttributes>();
  require_cuts(a, a.cuts.back(), "gather_values");
  std::int64_t own = 0;
  for (const ValueType& input : inputs) {
    if (input.dtype != DType::f64) fail("gather_values", "an input is not fp64");
    own += input.shape.elements();
  }
  if (own > a.elements(a.rank)) fail("gather_values", "its inputs do not fit into the own shard");
  return {{DType::f64, Shape{a.cuts.back()}}};
}

std::vector<ValueType> infer_sum_all(const Attributes& any, TypeSpan inputs) {
  any.as<ExchangeAttributes>();
  if (inputs.size() != 1 || inputs[0].dtype != DType::f64) fail("sum_all", "its input is not fp64");
  return {inputs[0]};
}

std::vector<ValueType> infer_shard(const Attributes& any, TypeSpan inputs) {
  const auto& a = any.as<ShardAttributes>();
  if (a.begin < 0 || a.begin + a.elements > inputs[0].shape.elements()) fail("shard", "it leaves its tensor");
  return {{inputs[0].dtype, Shape{a.elements}}};
}

std::vector<ValueType> infer_whole(const Attributes& any, TypeSpan inputs) {
  const auto& a = any.as<WholeAttributes>();
  if (a.begin < 0 || a.begin + inputs[0].shape.elements() > a.shape.elements()) fail("whole", "the part leaves its tensor");
  return {{inputs[0].dtype, a.shape}};
}

std::vector<ValueType> infer_squares(const Attributes&, TypeSpan inputs) {
  return {{DType::f64, Shape{ceil_div(inputs[0].shape.elements(), kTile)}}};
}

RangeRule ranges_of_squares(const Attributes&, TypeSpan) { return {kTile, {0}}; }

std::vector<ValueType> infer_parts(const Attributes& any, TypeSpan inputs) {
  const auto& a = any.as<PartsAttributes>();
  for (std::size_t i = 0; i < a.begins.size(); ++i) {
    if (a.begins[i] < 0 || a.begins[i] + a.counts.at(i) > inputs[0].shape.elements())
      fail("add_parts", "a part leaves the value");
  }
  return {{DType::f64, Shape{1}}};
}

std::vector<ValueType> infer_nothing(const Attributes& any, TypeSpan) {
  const std::int64_t elements = any.as<NothingAttributes>().elements;
  return elements == 0 ? std::vector<ValueType>{} : std::vector<ValueType>{{DType::f64, Shape{elements}}};
}

Cost no_cost(const Attributes&, TypeSpan, TypeSpan) { return {}; }

double bytes_of(const ValueType& type) { return static_cast<double>(dense_bytes(type.shape, type.dtype)); }

// Each received number is written, read and added.
Cost cost_of_sum(const Attributes& any, TypeSpan inputs, TypeSpan) {
  const auto& a = any.as<ExchangeAttributes>();
  const double own = static_cast<double>(a.elements(a.rank)), others = static_cast<double>(a.ranks() - 1);
  return {own * others, own * (2 * others + 2) * static_cast<double>(size_of(inputs[0].dtype))};
}

Cost cost_of_sum_all(const Attributes& any, TypeSpan inputs, TypeSpan) {
  const double ranks = static_cast<double>(any.as<ExchangeAttributes>().ranks());
  return {static_cast<double>(inputs[0].shape.elements()) * ranks, bytes_of(inputs[0]) * 2 * ranks};
}

Cost cost_of_values(const Attributes&, TypeSpan inputs, TypeSpan outputs) {
  double bytes = bytes_of(outputs[0]);
  for (const ValueType& input : inputs) bytes += bytes_of(input);
  return {0, bytes};
}

Cost cost_of_fetched(const Attributes&, TypeSpan inputs, TypeSpan outputs) {
  return {0, bytes_of(inputs[0]) + static_cast<double>(inputs[0].shape.elements() * size_of(outputs[0].dtype))};
}

Cost cost_of_squares(const Attributes&, TypeSpan inputs, TypeSpan) {
  return {2 * static_cast<double>(inputs[0].shape.elements()), bytes_of(inputs[0])};
}

std::vector<Alias> second_sums(const Attributes&) { return {{1, 0, AliasKind::accumulates}}; }
std::vector<Alias> second_in_place(const Attributes&) { return {{1, 0, AliasKind::updates}}; }
std::vector<Alias> first_in_place(const Attributes&) { return {{0, 0, AliasKind::updates}}; }
std::vector<Alias> view_of_first(const Attributes&) { return {{0, 0, AliasKind::view}}; }

}  // namespace

const OpDef kSumShards{.name = kSumName,
                       .infer = infer_in_place<&kSumName>,
                       .cost = cost_of_sum,
                       .not_differentiable = kAfterGradients,
                       .aliases = first_in_place,
                       .exchange = Exchange::sum_shards,
                       .replayable = false};
const OpDef kReduceShards{.name = "reduce_shards",
                          .infer = infer_reduced,
                          .cost = cost_of_sum,
                          .not_differentiable = kAfterGradients,
                          .aliases = second_sums,
                          .exchange = Exchange::sum_shards,
                          .replayable = false};
const OpDef kGatherShards{.name = kGatherName,
                          .infer = infer_in_place<&kGatherName>,
                          .cost = no_cost,
                          .not_differentiable = kAfterGradients,
                          .aliases = first_in_place,
                          .exchange = Exchange::gather_shards,
                          .replayable = false};
const OpDef kFetchShards{.name = "fetch_shards",
                         .infer = infer_fetched,
                         .cost = cost_of_fetched,
                         .not_differentiable = kAfterGradients,
                         .exchange = Exchange::fetch_shards};
const OpDef kRefreshShards{.name = "refresh_shards",
                           .infer = infer_refreshed,
                           .cost = cost_of_fetched,
                           .not_differentiable = kAfterGradients,
                           .aliases = second_in_place,
                           .exchange = Exchange::fetch_shards,
                           .replayable = false};
const OpDef kGatherValues{.name = "gather_values",
                          .infer = infer_values,
                          .cost = cost_of_values,
                          .not_differentiable = kAfterGradients,
                          .exchange = Exchange::gather_values,
                          .replayable = false};
const OpDef kSumAll{.name = "sum_all",
                    .infer = infer_sum_all,
                    .cost = cost_of_sum_all,
                    .not_differentiable = kAfterGradients,
                    .aliases = first_in_place,
                    .exchange = Exchange::sum_all,
                    .replayable = false};
const OpDef kShard{.name = "shard",
                   .infer = infer_shard,
                   .cost = no_cost,
                   .not_differentiable = kAfterGradients,
                   .aliases = view_of_first,
                   .view_begin = [](const Attributes& any) { return any.as<ShardAttributes>().begin; },
                   .view = true};
const OpDef kWhole{.name = "whole",
                   .infer = infer_whole,
                   .cost = no_cost,
                   .not_differentiable = kAfterGradients,
                   .aliases = view_of_first,
                   .view_begin = [](const Attributes& any) { return -any.as<WholeAttributes>().begin; },
                   .view = true};
const OpDef kTileSquares{.name = "tile_squares",
                         .infer = infer_squares,
                         .cost = cost_of_squares,
                         .not_differentiable = kAfterGradients,
                         .ranges = ranges_of_squares};
const OpDef kAddParts{.name = "add_parts", .infer = infer_parts, .cost = no_cost, .not_differentiable = kAfterGradients};
const OpDef kNothing{
    .name = "nothing", .infer = infer_nothing, .cost = no_cost, .not_differentiable = kAfterGradients, .replayable = false};

Bytes chunk_bytes(const ExchangeAttributes& a, DType dtype) {
  const std::int64_t elements = std::min(kExchangeChunk, a.elements(a.rank));
  return align_up(Bytes{elements * size_of(dtype)}, kAlignment) * (a.ranks() - 1);
}

std::int64_t staged_chunks(const ExchangeAttributes& a) {
  return std::min<std::int64_t>(2, ceil_div(a.elements(a.rank), kExchangeChunk));
}

bool exchanges_in_rounds(const Graph& graph) {
  return std::ranges::any_of(graph.order, [&](NodeId id) {
    const Node& node = graph.nodes[id];
    return node.section == Section::micro && node.op->exchange != Exchange::none;
  });
}

bool is_exchanged(const Node& node, std::size_t input) {
  switch (node.op->exchange) {
    case Exchange::none: return false;
    case Exchange::sum_shards:
    case Exchange::gather_shards:
    case Exchange::sum_all: return input == 0;
    case Exchange::fetch_shards:
    case Exchange::gather_values: break;
  }
  const std::vector<Alias> aliases = aliases_of(*node.op, node.attributes);  // messages carry the output
  return std::ranges::any_of(aliases, [&](const Alias& alias) { return alias.input == input; });
}

Bytes sent_bytes(const OpDef& op, const Attributes& any, TypeSpan inputs, TypeSpan outputs) {
  if (op.exchange == Exchange::none) return {};
  const auto& a = any.as<ExchangeAttributes>();
  const std::int64_t others = a.ranks() - 1, own = a.elements(a.rank);
  switch (op.exchange) {
    case Exchange::none: break;
    case Exchange::sum_shards: return Bytes{(a.cuts.back() - own) * size_of(inputs[0].dtype)};
    case Exchange::gather_shards: return Bytes{own * others * size_of(inputs[0].dtype)};
    case Exchange::fetch_shards:
    case Exchange::gather_values: return Bytes{own * others * size_of(outputs[0].dtype)};
    case Exchange::sum_all: return Bytes{inputs[0].shape.elements() * others * size_of(inputs[0].dtype)};
  }
  return {};
}

}  // namespace plimsoll
