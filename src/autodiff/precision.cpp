#include "autodiff/precision.h"

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "graph/builder.h"
#include "ops/cast/cast.h"

namespace plimsoll {
namespace {

class Precision {
 public:
  Precision(Graph& graph, DType compute) : graph_(graph), builder_(graph), compute_(compute) {}

  void run() {
    const std::vector<NodeId> order = std::exchange(graph_.order, {});
    for (const NodeId id : order) {
      if (graph_.nodes[id].section != Section::update) narrow_inputs(id);
      graph_.order.push_back(id);
    }
  }

 private:
  void narrow_inputs(NodeId id) {
    const Node node = graph_.nodes[id];  // a copy: the graph grows below
    if (node.op->narrow == nullptr) return;
    for (const std::size_t input : node.op->narrow(node.attributes)) {
      if (graph_.values[node.inputs[input]].type.dtype == DType::f32) {
        graph_.nodes[id].inputs[input] = rounded(node, node.inputs[input]);
      }
    }
  }

  // The builder appends the cast to the order, before the first node that reads it. What rests is rounded again for the backward
  // pass: a copy that waited for it would take half of its bytes. So is a gradient for each layer: sums of residual paths hand
  // one and the same to many, and a copy would live as long as all of them.
  ValueId rounded(const Node& reader, ValueId value) {
    const Value& what = graph_.values[value];
    const bool again = reader.backward && what.persistent();
    const bool gradient = what.producer.valid() && graph_.nodes[what.producer].backward;
    const auto [place, fresh] =
        known_.emplace(std::tuple(value, reader.section, again, gradient ? std::string(reader.line) : std::string()), ValueId{});
    if (!fresh) return place->second;
    builder_.set_section(reader.section, reader.backward);
    builder_.set_role(reader.backward && !what.persistent() ? Role::gradient : Role::activation);
    builder_.set_line(reader.line);
    const ValueId narrow = ops::cast(builder_, value, compute_, "");
    builder_.rename(narrow, std::string(graph_.values[value].name) + "." + std::string(name(compute_)));
    return place->second = narrow;
  }

  Graph& graph_;
  GraphBuilder builder_;
  DType compute_;
  std::map<std::tuple<ValueId, Section, bool, std::string>, ValueId> known_;
};

}  // namespace

void apply_precision(Graph& graph, DType compute) {
  if (compute == DType::f32) return;
  Precision(graph, compute).run();
  verify(graph);
}

}  // namespace plimsoll
