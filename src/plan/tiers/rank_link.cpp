#include "plan/tiers/rank_link.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "base/error.h"
#include "graph/exchange.h"

namespace plimsoll {
namespace {

Bytes sent_by(const Graph& graph, const Node& node) {
  return sent_bytes(*node.op, node.attributes, types_of(graph, node.inputs), types_of(graph, node.outputs));
}

Bytes received_by(const Graph& graph, const Node& node) {
  const auto& a = node.attributes.as<ExchangeAttributes>();
  const std::int64_t own = a.elements(a.rank), others = a.ranks() - 1;
  const auto size = static_cast<std::int64_t>(size_of(graph.values[node.outputs[0]].type.dtype));
  switch (node.op->exchange) {
    case Exchange::none: break;
    case Exchange::sum_shards: return Bytes{own * others * size};
    case Exchange::gather_shards:
    case Exchange::fetch_shards:
    case Exchange::gather_values: return Bytes{(a.cuts.back() - own) * size};
    case Exchange::sum_all: return sent_by(graph, node);
  }
  return {};
}

// Messages that follow one another.
std::int64_t rounds_of(const Node& node) {
  if (node.op->exchange != Exchange::sum_shards) return 1;
  const auto& a = node.attributes.as<ExchangeAttributes>();
  std::int64_t chunks = 1;
  for (std::int64_t rank = 0; rank < a.ranks(); ++rank) chunks = std::max(chunks, ceil_div(a.elements(rank), kExchangeChunk));
  return chunks;
}

// In an update.
std::int64_t runs_of(const Node& node, std::int64_t rounds) {
  return node.section == Section::micro ? rounds : node.section == Section::update ? 1 : 0;
}

}  // namespace

RankTraffic traffic_of(const Graph& graph, std::int64_t rounds) {
  RankTraffic traffic;
  for (const NodeId id : graph.order) {
    const Node& node = graph.nodes[id];
    const Exchange exchange = node.op->exchange;
    if (exchange == Exchange::none) continue;
    const bool parameters = exchange == Exchange::gather_shards || exchange == Exchange::fetch_shards,
               gradients = exchange == Exchange::sum_shards;
    (parameters  ? traffic.parameters
     : gradients ? traffic.gradients
                 : traffic.control) += sent_by(graph, node) * runs_of(node, rounds);
  }
  return traffic;
}

double exchange_seconds(const Graph& graph, const Node& node, const RankLink& link) {
  if (node.op->exchange == Exchange::none) return 0;
  const Bytes most = std::max(sent_by(graph, node), received_by(graph, node));
  return static_cast<double>(rounds_of(node)) * link.latency_seconds + static_cast<double>(most.n) / link.bytes_per_second;
}

double exchange_seconds(const Graph& graph, std::int64_t rounds, const RankLink& link) {
  double seconds = 0;
  for (const NodeId id : graph.order) {
    const Node& node = graph.nodes[id];
    seconds += static_cast<double>(runs_of(node, rounds)) * exchange_seconds(graph, node, link);
  }
  return seconds;
}

}  // namespace plimsoll
