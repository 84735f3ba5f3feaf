#include "autodiff/precision.h"

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/builder.h"
#include "ops/cast/cast.h"
#include "ops/reduce/reduce.h"
#include "ops/update/update.h"

namespace plimsoll {
namespace {

// True if the rule of the node's op, possibly null, names this input.
bool takes(std::vector<std::size_t> (*rule)(const Attributes&), const Node& node, std::size_t input) {
  if (rule == nullptr) return false;
  const std::vector<std::size_t> inputs = rule(node.attributes);
  return std::find(inputs.begin(), inputs.end(), input) != inputs.end();
}

class Precision {
 public:
  Precision(Graph& graph, DType compute) : graph_(graph), builder_(graph), compute_(compute) {}

  void run() {
    find_narrow();
    for (std::size_t i = 0; i < narrow_.size(); ++i) {
      if (narrow_[ValueId{i}] != 0) make_narrow(ValueId{i});
    }
    for (Node& node : graph_.nodes) round_again(node);
    const std::vector<NodeId> order = std::exchange(graph_.order, {});
    for (const NodeId id : order) {
      if (graph_.nodes[id].section != Section::update) narrow_inputs(id);
      graph_.order.push_back(id);
      const Node& node = graph_.nodes[id];
      if (node.backward && !node.op->view) count_small(id);
    }
  }

  // The meter of fp16 gradients.
  std::optional<UnderflowMeter> meter() {
    if (counts_.empty()) return {};
    UnderflowMeter meter;
    std::vector<ValueId> counts;
    for (const auto& [gradient, count] : counts_) {
      meter.gradients.push_back(graph_.values[gradient].name.text());
      counts.push_back(count);
    }
    builder_.set_section(Section::update);
    builder_.set_role(Role::output);
    builder_.set_line("update");
    meter.report = builder_.add1(ops::kReport, ops::NoAttributes{}, std::move(counts), "underflow");
    graph_.results.push_back(meter.report);
    sort_sections(graph_);
    return meter;
  }

 private:
  static bool makes_narrow(const Node& node, std::size_t output, DType compute) {
    if (output >= node.op->rounds || node.section == Section::update) return false;
    return node.op->alike || (node.op->rounded != nullptr && !(node.op->rounded(node.attributes, compute) == node.attributes));
  }

  // Finds the values to make in 16 bits: as many as possible, if every reader accepts them. Ops that need several values of one
  // width get all of them in 16 bits or none.
  void find_narrow() {
    narrow_.resize(graph_.values.size(), 0);
    PerValue<char> read(graph_.values.size(), 0);
    for (const Node& node : graph_.nodes) {
      for (std::size_t i = 0; i < node.outputs.size(); ++i) narrow_[node.outputs[i]] = makes_narrow(node, i, compute_) ? 1 : 0;
    }
    for (const Node& node : graph_.nodes) {
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const bool fits = node.section != Section::update && (takes(node.op->narrow, node, i) || takes(node.op->either, node, i));
        read[node.inputs[i]] = 1;
        if (!fits) narrow_[node.inputs[i]] = 0;
      }
    }
    for (std::size_t i = 0; i < narrow_.size(); ++i)
      narrow_[ValueId{i}] = narrow_[ValueId{i}] != 0 && read[ValueId{i}] != 0 ? 1 : 0;
    for (const ValueId result : graph_.results) narrow_[result] = 0;
    while (mend_widths()) {
    }
  }

  // The outputs that an op may round.
  static std::span<const ValueId> rounded_outputs(const Node& node) {
    return std::span(node.outputs).first(std::min(node.op->rounds, node.outputs.size()));
  }

  // Widens the values of ops that have both widths but need one. Returns true after a change.
  bool mend_widths() {
    bool mended = false;
    for (const Node& node : graph_.nodes) {
      if (!node.op->alike && node.op->rounds == 1) continue;
      const std::span<const ValueId> outputs = rounded_outputs(node);
      std::vector<ValueId> values(outputs.begin(), outputs.end());
      if (node.op->alike) {
        for (const std::size_t input : node.op->either(node.attributes)) values.push_back(node.inputs[input]);
      }
      const auto narrow = [&](ValueId value) { return narrow_[value] != 0; };
      if (std::all_of(values.begin(), values.end(), narrow) || std::none_of(values.begin(), values.end(), narrow)) continue;
      for (const ValueId value : values) narrow_[value] = 0;
      mended = true;
    }
    return mended;
  }

  // Rounds like the forward op, whose output width is known here.
  void round_again(Node& node) {
    const RoundsAgain& again = node.op->again;
    if (again.rounded == nullptr) return;
    const ValueId made = graph_.nodes[graph_.values[node.inputs[again.input]].producer].outputs[0];
    if (narrow_[made] != 0) node.attributes = again.rounded(node.attributes, compute_);
  }

  void make_narrow(ValueId value) {
    Node& producer = graph_.nodes[graph_.values[value].producer];
    if (producer.op->rounded != nullptr) producer.attributes = producer.op->rounded(producer.attributes, compute_);
    graph_.values[value].type.dtype = compute_;
  }

  void narrow_inputs(NodeId id) {
    const Node node = graph_.nodes[id];  // a copy: the graph grows below
    if (node.op->narrow == nullptr) return;
    for (const std::size_t input : node.op->narrow(node.attributes)) {
      if (graph_.values[node.inputs[input]].type.dtype == DType::f32) {
        graph_.nodes[id].inputs[input] = rounded(node, node.inputs[input]);
      }
    }
  }

  // Counts the small numbers of fp16 gradients right after the node that makes them.
  void count_small(NodeId id) {
    const Node node = graph_.nodes[id];  // a copy: the graph grows below
    for (const ValueId value : rounded_outputs(node)) count_small(node, value);
  }

  void count_small(const Node& node, ValueId value) {
    if (graph_.values[value].type.dtype != DType::f16) return;
    const std::string name = graph_.values[value].name.text() + ".small";
    const ValueId count = builder_.add_persistent(name, {DType::f64, Shape{ops::kCounts}}, Role::output);
    counts_.emplace_back(value, count);
    builder_.set_section(node.section, /*backward=*/true);
    builder_.set_role(Role::output);
    builder_.set_line(node.line.text());
    builder_.set_gradient_of(node.gradient_of);
    builder_.add1(ops::kCountSmall, ops::NoAttributes{}, {value, count}, "small");
  }

  // The cast is placed before the first reader. Persistent values are rounded again for the backward pass: a copy kept until then
  // would take half of their bytes. Gradients (shared by residual paths) and persistent values (shared by layers) are rounded for
  // each line: one copy would live as long as all of its readers.
  ValueId rounded(const Node& reader, ValueId value) {
    const Value& what = graph_.values[value];
    const bool again = reader.backward && what.persistent();
    const bool gradient = what.producer.valid() && graph_.nodes[what.producer].backward;
    const bool by_line = gradient || what.persistent();
    const auto [place, fresh] =
        known_.emplace(std::tuple(value, reader.section, again, by_line ? std::string(reader.line) : std::string()), ValueId{});
    if (!fresh) return place->second;
    builder_.set_section(reader.section, reader.backward);
    builder_.set_role(reader.backward && (gradient || again) ? Role::gradient : Role::activation);
    builder_.set_line(reader.line);
    builder_.set_gradient_of(reader.gradient_of);
    const ValueId narrow = ops::cast(builder_, value, compute_, "");
    builder_.rename(narrow, std::string(graph_.values[value].name) + "." + std::string(name(compute_)));
    if (gradient) count_small(graph_.values[narrow].producer);
    return place->second = narrow;
  }

  Graph& graph_;
  GraphBuilder builder_;
  DType compute_;
  PerValue<char> narrow_;  // made in 16 bits
  std::map<std::tuple<ValueId, Section, bool, std::string>, ValueId> known_;
  std::vector<std::pair<ValueId, ValueId>> counts_;  // gradients in fp16, and their counts of small numbers
};

// The parameters of two or more axes whose readers all fit: fits(node, input). Statistics keep their declared storage; adapters
// are fp32.
template <class Fits>
std::vector<ValueId> parameters_where(const Graph& graph, Fits fits) {
  PerValue<char> others(graph.values.size(), 0);
  for (const Node& node : graph.nodes) {
    if (node.section == Section::update) continue;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) others[node.inputs[i]] |= fits(node, i) ? 0 : 1;
  }
  std::vector<ValueId> found;
  for (const ValueId parameter : graph.parameters()) {
    const Value& value = graph.values[parameter];
    const bool kept = value.parameter->kind == ParameterKind::statistic || value.parameter->adapter;
    if (value.type.shape.rank() >= 2 && others[parameter] == 0 && !kept) found.push_back(parameter);
  }
  return found;
}

// Includes all versions of the parameters.
void narrow_parameters(Graph& graph, DType to) {
  const auto fits = [](const Node& node, std::size_t i) {
    return takes(node.op->narrow, node, i) || takes(node.op->either, node, i);
  };
  PerValue<char> chosen(graph.values.size(), 0);
  for (const ValueId parameter : parameters_where(graph, fits)) chosen[parameter] = 1;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    if (chosen[origin_of(graph, ValueId{i})] != 0) graph.values[ValueId{i}].type.dtype = to;
  }
}

}  // namespace

std::vector<ValueId> read_by_products(const Graph& graph) {
  return parameters_where(graph, [](const Node& node, std::size_t i) { return takes(node.op->narrow, node, i); });
}

std::optional<UnderflowMeter> apply_precision(Graph& graph, DType compute, DType parameters) {
  if (compute == DType::f32) return {};
  ensure(compute == DType::bf16 || compute == DType::f16, "precision", "activations are fp32, bf16 or fp16");
  ensure(parameters == DType::f32 || (parameters == DType::bf16 && compute == DType::bf16), "precision",
         "weights are fp32, or bf16 as the products are");
  if (parameters != DType::f32) narrow_parameters(graph, parameters);
  Precision precision(graph, compute);
  precision.run();
  std::optional<UnderflowMeter> meter = precision.meter();
  verify(graph);
  return meter;
}

}  // namespace plimsoll
