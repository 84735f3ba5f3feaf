#include "autodiff/training.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "autodiff/precision.h"
#include "base/ceil_div.h"
#include "base/error.h"
#include "base/philox.h"
#include "graph/builder.h"
#include "graph/gradient.h"
#include "ops/elementwise/elementwise.h"
#include "ops/embedding/embedding.h"
#include "ops/factored/factored.h"
#include "ops/reduce/reduce.h"
#include "ops/statistic/statistic.h"
#include "ops/update/update.h"

namespace plimsoll {
namespace {

// Lookups of a window get slots of their own, up to one for this many rows of a table.
constexpr std::int64_t kRowsPerSlot = 8;

constexpr const char* kChangeName = "change";  // suffix of a parameter's name, after a dot

// Without a key numbers are rounded to the nearest.
NoiseKey rounding_of(const OptimizerSettings& settings, const std::string& name) {
  return settings.nearest ? NoiseKey{} : philox_key(settings.seed, random_site(name + ".rounding"));
}

struct Gradient {
  ValueId parameter, accumulator;
  RowAccumulators apart;  // of a table with lookups and other readers
};

// A reverse walk over the forward nodes of the section `micro`, from the losses at its roots.
class Backward : public GradientContext {
 public:
  Backward(Graph& graph, std::vector<LossRoot> roots, std::int64_t accumulation, const OptimizerSettings& settings)
      : accumulation_(accumulation), settings_(settings), builder_(graph), roots_(std::move(roots)) {
    forward_ = graph.section_order(Section::micro);
    add_accumulators();
    mark_needed();
  }

  void run() {
    builder_.set_section(Section::micro, /*backward=*/true);
    builder_.set_role(Role::gradient);
    for (auto it = forward_.rbegin(); it != forward_.rend(); ++it) differentiate(*it);
  }

  const std::vector<Gradient>& accumulators() const { return accumulators_; }
  const std::vector<LossRoot>& roots() const { return roots_; }
  ValueId step() const { return step_; }

  GraphBuilder& builder() override { return builder_; }
  const Node& node() const override { return node_; }
  ValueId gradient(std::size_t output) const override { return get(gradients_, node_.outputs.at(output)); }
  bool wants(std::size_t input) const override { return needed_[node_.inputs.at(input)]; }

  ValueId accumulator(std::size_t input) const override {
    const ValueId value = node_.inputs.at(input);
    return trained(value) && !is_narrow(value) ? get(gradients_, value) : ValueId{};
  }

  bool shared(std::size_t input) const override {
    const ValueId present = accumulator(input);
    return present.valid() && builder_.value(present).version_of.valid();
  }

  RowAccumulators rows_apart(std::size_t input) override {
    const ValueId table = node_.inputs.at(input);
    const auto found =
        std::find_if(accumulators_.begin(), accumulators_.end(), [&](const Gradient& each) { return each.parameter == table; });
    ensure(found != accumulators_.end(), "autodiff", "rows of what is not trained");
    if (found->apart.rows.valid()) return {};
    const std::string name = builder_.value(table).name + ".grad";
    const ValueType type = builder_.type(table);
    const std::int64_t rows = type.shape[0], window = accumulation_ * builder_.shape(node_.inputs.at(0)).elements();
    const bool few = window > 0 && window <= rows / kRowsPerSlot;
    found->apart.rows =
        builder_.add_persistent(name + ".rows", {type.dtype, {few ? window : rows, type.shape.last()}}, Role::accumulator);
    if (few) found->apart.map = builder_.add_persistent(name + ".slots", {DType::i32, Shape{rows + 1}}, Role::accumulator);
    return found->apart;
  }

  void contribute(std::size_t input, ValueId gradient) override {
    const ValueId value = node_.inputs.at(input);
    const ValueId before = get(gradients_, value);
    if (trained(value)) {
      if (is_narrow(value)) {
        gradient = add_rounded(value, gradient, before);
      } else if (!builder_.value(gradient).version_of.valid()) {
        gradient = builder_.add1(ops::kAccumulate, ops::NoAttributes{}, {gradient, before}, "grad.sum");
      }
    } else if (before.valid()) {
      gradient = ops::add(builder_, before, gradient, "grad.sum");
    }
    set(value, gradient);
  }

  // The node computes the losses as well, so it is not the gradient of another one.
  std::vector<ValueId> replace(const OpDef& op, Attributes attributes, std::vector<ValueId> inputs,
                               std::vector<std::string> names) override {
    builder_.set_gradient_of({});
    return builder_.replace(id_, op, std::move(attributes), std::move(inputs), std::move(names));
  }

 private:
  static ValueId get(const PerValue<ValueId>& map, ValueId value) { return value.index < map.size() ? map[value] : ValueId{}; }

  void set(ValueId value, ValueId gradient) {
    if (gradients_.size() < builder_.graph().values.size()) gradients_.resize(builder_.graph().values.size());
    gradients_[value] = gradient;
  }

  bool trained(ValueId value) const {
    const auto& parameter = builder_.value(value).parameter;
    return parameter && parameter->kind == ParameterKind::trained;
  }

  bool is_narrow(ValueId parameter) const { return narrow_.contains(parameter); }

  // Only gradients of products may be summed in 16 bits: all other ops add to an fp32 accumulator.
  void find_narrow() {
    if (settings_.gradients == DType::f32) return;
    const std::vector<ValueId> found = read_by_products(builder_.graph());
    narrow_.insert(found.begin(), found.end());
  }

  ValueId add_rounded(ValueId parameter, ValueId gradient, ValueId into) {
    const std::string name = builder_.value(parameter).name.text() + ".grad";
    if (!step_.valid()) step_ = builder_.add_input("batch.step", {DType::u32, Shape{2}});
    // Each addition to a shared parameter rounds with noise of its own.
    const int addition = ++additions_[parameter];
    const ops::RoundingAttributes attributes{rounding_of(settings_, addition == 1 ? name : fmt::format("{}.{}", name, addition))};
    builder_.rename(gradient, name + ".part");
    const ValueId sum = builder_.add1(ops::kAccumulateRounded, attributes, {gradient, step_, into}, "grad.sum");
    builder_.rename(sum, name);
    return sum;
  }

  void add_accumulators() {
    find_narrow();
    for (const ValueId parameter : builder_.graph().parameters()) {
      if (!trained(parameter)) continue;
      const Value& value = builder_.value(parameter);
      const ValueType type{is_narrow(parameter) ? settings_.gradients : value.type.dtype, value.type.shape};
      const ValueId accumulator = builder_.add_persistent(value.name + ".grad", type, Role::accumulator);
      accumulators_.push_back({parameter, accumulator, {}});
      set(parameter, accumulator);
    }
  }

  // A value needs a gradient if it depends on a trained parameter.
  void mark_needed() {
    const Graph& graph = builder_.graph();
    needed_.resize(graph.values.size());
    for (const Gradient& each : accumulators_) needed_[each.parameter] = 1;
    for (const NodeId id : forward_) {
      const Node& node = graph.nodes[id];
      const bool any = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) { return needed_[input] != 0; });
      for (const ValueId output : node.outputs) needed_[output] = any;
    }
  }

  void differentiate(NodeId id) {
    id_ = id;
    node_ = builder_.graph().nodes[id];  // a copy: the graph grows below
    const bool root = std::ranges::any_of(
        node_.outputs, [&](ValueId output) { return std::ranges::find(roots_, output, &LossRoot::losses) != roots_.end(); });
    const bool flows =
        std::any_of(node_.outputs.begin(), node_.outputs.end(), [&](ValueId output) { return get(gradients_, output).valid(); });
    if (!root && !flows) return;
    if (node_.op->gradient == nullptr) {
      throw config_error("E-GRADIENT", node_.line,
                         std::string(node_.op->name) + " has no gradient: " + std::string(node_.op->not_differentiable));
    }
    builder_.set_line(node_.line);
    builder_.set_gradient_of(id);
    node_.op->gradient(*this);
    builder_.set_gradient_of({});
  }

  std::int64_t accumulation_;
  const OptimizerSettings& settings_;
  std::set<ValueId> narrow_;          // parameters whose gradients are summed in 16 bits
  std::map<ValueId, int> additions_;  // number of their additions so far
  ValueId step_;
  GraphBuilder builder_;
  std::vector<LossRoot> roots_;
  NodeId id_;
  Node node_;
  std::vector<NodeId> forward_;
  std::vector<Gradient> accumulators_;
  PerValue<ValueId> gradients_;
  PerValue<char> needed_;
};

// All micro-steps of a window see a statistic's value at its start. A statistic that micro-steps update in place is thus for
// other passes to read. It must not depend on the number of updates, since a window may run again with any number of micro-steps.
void check_statistics(const Graph& graph) {
  PerValue<NodeId> updated_by(graph.values.size());
  const std::vector<NodeId> nodes = graph.section_order(Section::micro);
  const auto fail = [&](const Node& node, std::string_view what, ValueId value, std::string_view expected) {
    throw internal_error(node.line.text(),
                         fmt::format("{} {} {}; expected {}", node.op->name, what, graph.values[value].name.text(), expected));
  };
  for (const NodeId id : nodes) {
    const Node& node = graph.nodes[id];
    for (const NodeAlias& alias : aliases_of(graph, node)) {
      const ValueId value = origin_of(graph, alias.input);
      if (alias.kind != AliasKind::updates || !graph.values[value].persistent()) continue;
      const auto& parameter = graph.values[value].parameter;
      if (!parameter || parameter->kind != ParameterKind::statistic) fail(node, "updates", value, "a statistic");
      if (node.op->replayable) fail(node, "updates", value, "an op that never runs again");
      if (updated_by[value].valid()) fail(node, "updates", value, "one op that does so");
      updated_by[value] = id;
    }
  }
  for (std::size_t pass = 0; pass < graph.forward.size(); ++pass) {
    for (const NodeId id : graph.section_order(forward_section(pass))) {
      for (const NodeAlias& alias : aliases_of(graph, graph.nodes[id])) {
        const ValueId value = origin_of(graph, alias.input);
        const bool kept = graph.values[value].parameter || graph.values[value].role == Role::statistic;
        if (in_place(alias.kind) && kept) fail(graph.nodes[id], "changes", value, "a forward pass that only reads it");
      }
    }
  }
  for (const NodeId id : nodes) {
    for (const ValueId input : graph.nodes[id].inputs) {
      const NodeId updater = updated_by[origin_of(graph, input)];
      if (updater.valid() && updater != id)
        fail(graph.nodes[id], "reads", input, "no reader of a statistic in the pass that updates it");
    }
  }
}

class UpdateSection {
 public:
  UpdateSection(Graph& graph, const OptimizerSettings& settings) : builder_(graph), settings_(settings) {}

  TrainingValues build(std::vector<Gradient> accumulators) {
    const std::vector<NodeId> own = builder_.graph().section_order(Section::update);
    builder_.set_section(Section::update);
    builder_.set_line("update");
    builder_.set_role(Role::output);
    TrainingValues values;
    values.update_scalars = builder_.add_input("update.scalars", {DType::f64, Shape{ops::kUpdateScalars}});
    for (Gradient& each : accumulators) add_rows(each);
    std::vector<ValueId> squares;  // by accumulator
    for (const Gradient& each : accumulators) {
      squares.push_back(
          builder_.add1(ops::kSumOfSquares, ops::NoAttributes{}, {each.accumulator}, builder_.value(each.accumulator).name));
    }
    const auto [norm, coefficient] = add_clip(squares, values.update_scalars);
    values.gradient_norm = norm;
    const ValueId used = settings_.clip > 0 || settings_.scaled ? coefficient : ValueId{};
    std::vector<ValueId> reported;  // in the order of `Reported`
    for (std::size_t i = 0; i < accumulators.size(); ++i) {
      const ValueId parameter = accumulators[i].parameter;
      const ValueId change = update_parameter({parameter, accumulators[i].accumulator, values.update_scalars, used});
      reported.insert(reported.end(), {squares[i], change});
      values.reported.push_back(parameter);
    }
    const std::vector<ValueId> moved = add_window_ends(settings_.scaled ? coefficient : ValueId{});
    if (settings_.average_blend > 0) add_averages(moved, values.update_scalars, used);
    put_behind(own);
    builder_.set_line("update");
    values.report = builder_.add1(ops::kReport, ops::NoAttributes{}, std::move(reported), "report");
    return values;
  }

 private:
  struct Clip {
    ValueId norm, coefficient;
  };

  Clip add_clip(std::vector<ValueId> inputs, ValueId scalars) {
    const ops::ClipAttributes attributes{settings_.clip, settings_.scaled};
    if (settings_.scaled) inputs.push_back(scalars);
    const auto at = ops::ClipOperands::of(attributes, inputs.size());
    std::vector<std::string> names(at.outputs);
    names[at.norm] = "norm";
    names[at.coefficient] = "coefficient";
    const std::vector<ValueId> outputs = builder_.add(ops::kClip, attributes, std::move(inputs), std::move(names));
    return {outputs[at.norm], outputs[at.coefficient]};
  }

  // With a loss scale, a window with a non-finite gradient runs again or does not count. Returns the statistics that move.
  std::vector<ValueId> add_window_ends(ValueId coefficient) {
    const Graph& graph = builder_.graph();
    const std::size_t before = graph.values.size();
    for (const NodeId id : graph.section_order(Section::micro)) {
      const Node node = graph.nodes[id];  // a copy: the graph grows below
      if (node.op->at_update == nullptr) continue;
      builder_.set_line("update." + node.line.text());
      node.op->at_update({builder_, node, coefficient});
    }
    std::vector<ValueId> moved;
    for (std::size_t i = before; i < graph.values.size(); ++i) {
      const ValueId of = graph.values[ValueId{i}].version_of;
      if (of.valid() && graph.values[of].parameter && graph.values[of].type.dtype == DType::f32) moved.push_back(ValueId{i});
    }
    return moved;
  }

  // Averages of the weights need statistics of those weights, so these are averaged alike.
  void add_averages(const std::vector<ValueId>& statistics, ValueId scalars, ValueId coefficient) {
    for (const ValueId statistic : statistics) {
      const std::string name = builder_.value(statistic).name.text() + "." + kAverageName;
      builder_.set_line("update." + builder_.value(statistic).name.text());
      const ValueId average = builder_.add_persistent(name, ValueType(builder_.type(statistic)), Role::optimizer_state);
      std::vector<ValueId> inputs{average, statistic, scalars};
      if (coefficient.valid()) inputs.push_back(coefficient);
      builder_.add1(ops::kAverageStatistic, ops::AverageAttributes{settings_.average_blend}, std::move(inputs), kAverageName);
    }
  }

  // The model's own update nodes run after the optimizer and read its results.
  void put_behind(const std::vector<NodeId>& own) {
    Graph& graph = builder_.graph();
    if (own.empty()) return;
    PerValue<ValueId> newest(graph.values.size());
    for (std::size_t i = 0; i < graph.values.size(); ++i) {
      const Value& value = graph.values[ValueId{i}];
      if (value.section == Section::update && value.version_of.valid()) newest[value.version_of] = ValueId{i};
    }
    for (const NodeId id : own) {
      std::erase(graph.order, id);
      graph.order.push_back(id);
      for (ValueId& input : graph.nodes[id].inputs) {
        const bool updated = newest[input].valid() && graph.values[newest[input]].producer != id;
        if (updated) input = newest[input];
      }
    }
  }

  void add_rows(Gradient& gradient) {
    const auto& [rows, map] = gradient.apart;
    if (!rows.valid()) return;
    const std::string name = builder_.value(gradient.accumulator).name;
    std::vector<ValueId> inputs{gradient.accumulator, rows};
    if (map.valid()) inputs.push_back(map);
    gradient.accumulator = builder_.add1(ops::kAddRows, ops::AddRowsAttributes{map.valid()}, std::move(inputs), "rows");
    builder_.rename(gradient.accumulator, name);
  }

  bool decays(const ParameterInfo& parameter) const {
    switch (settings_.decay) {
      case OptimizerSettings::Decay::all: return true;
      case OptimizerSettings::Decay::matrices: return parameter.decay;
      case OptimizerSettings::Decay::no_embeddings: return parameter.decay && !parameter.table;
    }
    return false;
  }

  // Inputs of an update other than its state. The coefficient comes from clipping and the loss scale; invalid without both.
  struct UpdateValues {
    ValueId parameter, gradient, scalars, coefficient;
  };

  struct Update {
    const OpDef* op;
    Attributes attributes;
    ops::UpdateOperands at;
    std::vector<const char*> states;

    template <class A>
    Update(const OpDef& update, const A& a, std::vector<const char*> names)
        : op(&update), attributes(a), at(a.operands()), states(std::move(names)) {}
  };

  Update update_of(double decay, bool clipped, const NoiseKey& rounding) const {
    const OptimizerSettings& s = settings_;
    const bool coded = s.state == DType::u8;
    switch (s.kind) {
      case OptimizerSettings::Kind::adamw:
        return {ops::kAdamW,
                ops::AdamWAttributes{s.beta2, s.epsilon, decay, clipped, s.clip_value, s.average_blend, rounding, coded},
                {"m", "v"}};
      case OptimizerSettings::Kind::lion:
        return {ops::kLion, ops::LionAttributes{s.beta2, decay, clipped, s.clip_value, s.average_blend, rounding, coded}, {"m"}};
      case OptimizerSettings::Kind::adafactor:
      case OptimizerSettings::Kind::sgd: break;
    }
    const ops::SgdAttributes sgd{s.momentum, decay, s.nesterov, clipped, s.clip_value, s.average_blend, rounding, coded};
    return {ops::kSgd, sgd, s.momentum ? std::vector{"momentum"} : std::vector<const char*>{}};
  }

  // Returns the parameter's change.
  ValueId update_parameter(const UpdateValues& values) {
    const Value parameter = builder_.value(values.parameter);  // a copy: the graph grows below
    const double decay = decays(*parameter.parameter) ? settings_.weight_decay : 0;
    const std::string& name = parameter.name;
    const Shape& shape = parameter.type.shape;
    builder_.set_line("update." + name);
    if (settings_.kind == OptimizerSettings::Kind::adafactor) return factored_update(values, decay);
    const bool narrow_state = settings_.state != DType::f32 && has_state(settings_.kind, settings_.momentum);
    const bool rounds = narrow_state || settings_.parameters != DType::f32;
    const NoiseKey rounding = rounds ? rounding_of(settings_, name) : NoiseKey{};
    const Update update = update_of(decay, values.coefficient.valid(), rounding);
    const ops::UpdateOperands& at = update.at;
    std::vector<ValueId> inputs(at.inputs());
    std::vector<std::string> outputs(at.outputs());
    const auto add_state = [&](std::size_t where, const std::string& state, const ValueType& of) {
      inputs[where] = builder_.add_persistent(name + "." + state, of, Role::optimizer_state);
      outputs[where] = state;
    };
    inputs[at.parameter()] = values.parameter;
    for (std::size_t i = 0; i < at.states(); ++i) {
      const std::string state = update.states[i];
      add_state(at.state(i), state, {settings_.state, shape});
      if (!at.coded()) continue;
      add_state(at.scales(i), state + ".scale", {DType::f32, Shape{ceil_div(shape.elements(), ops::kCodedBlock)}});
    }
    if (at.averaged()) add_state(at.average(), kAverageName, {DType::f32, shape});
    inputs[at.gradient()] = values.gradient;
    inputs[at.scalars()] = values.scalars;
    if (at.clipped()) inputs[at.coefficient()] = values.coefficient;
    outputs[at.change()] = kChangeName;
    return builder_.add(*update.op, update.attributes, std::move(inputs), std::move(outputs))[at.change()];
  }

  // Three passes over the gradient, each of which may stream. Tensors of more than two axes count as matrices of their last axis.
  ValueId factored_update(const UpdateValues& values, double decay) {
    using At = ops::FactoredOperands;
    const std::string name = builder_.value(values.parameter).name.text();
    const Shape shape = builder_.shape(values.parameter);
    const NoiseKey rounding = settings_.parameters == DType::f32 ? NoiseKey{} : rounding_of(settings_, name);
    const ops::FactoredAttributes attributes{shape.rank() >= 2,       decay,   values.coefficient.valid(), settings_.clip_value,
                                             settings_.average_blend, rounding};
    struct State {
      std::string name;
      ValueId value;
    };
    std::vector<State> states;
    const auto keep = [&](const char* state, const Shape& of) {
      states.push_back({state, builder_.add_persistent(name + "." + state, {DType::f32, of}, Role::optimizer_state)});
    };
    if (attributes.factored) {
      keep("rows", Shape{shape.elements() / shape.last()});
      keep("columns", Shape{shape.last()});
    } else {
      keep("v", shape);
    }
    const auto inputs_of = [&](const At& at) {
      std::vector<ValueId> inputs(at.inputs);
      const auto give = [&](std::size_t where, ValueId value) {
        if (where != At::kAbsent) inputs[where] = value;
      };
      give(at.parameter, values.parameter);
      for (std::size_t i = 0; i < states.size(); ++i) give(at.state(i), states[i].value);
      give(at.gradient, values.gradient);
      give(at.scalars, values.scalars);
      give(at.coefficient, values.coefficient);
      return inputs;
    };

    const At variance = At::of_variance(attributes);
    std::vector<std::string> names(variance.changed);
    for (std::size_t i = 0; i < states.size(); ++i) names[variance.state(i)] = states[i].name;
    const auto moved = builder_.add(ops::kUpdateVariance, attributes, inputs_of(variance), std::move(names));
    for (std::size_t i = 0; i < states.size(); ++i) states[i].value = moved[variance.state(i)];

    const ValueId sizes = builder_.add1(ops::kUpdateSize, attributes, inputs_of(At::of_size(attributes)), "sizes");

    const At at = At::of_update(attributes);
    std::vector<ValueId> inputs = inputs_of(at);
    std::vector<std::string> outputs(at.change() + 1);
    if (at.average != At::kAbsent) {
      inputs[at.average] = builder_.add_persistent(name + "." + kAverageName, {DType::f32, shape}, Role::optimizer_state);
      outputs[at.average] = kAverageName;
    }
    inputs[at.sizes] = sizes;
    outputs[at.change()] = kChangeName;
    return builder_.add(ops::kAdafactor, attributes, std::move(inputs), std::move(outputs))[at.change()];
  }

  GraphBuilder builder_;
  const OptimizerSettings& settings_;
};

}  // namespace

TrainingValues add_training(Graph& graph, std::vector<LossRoot> losses, const OptimizerSettings& optimizer,
                            std::int64_t accumulation) {
  check_statistics(graph);
  Backward backward(graph, std::move(losses), accumulation, optimizer);
  backward.run();
  GraphBuilder& builder = backward.builder();
  builder.set_line("loss");
  TrainingValues values;
  values.step = backward.step();
  for (const LossRoot& root : backward.roots()) {
    const ValueId total = builder.add_persistent(root.total, {DType::f64, Shape{1}}, Role::output);
    builder.add1(ops::kSumLosses, ops::NoAttributes{}, {root.losses, total}, "total");
    values.loss_totals.push_back(total);
  }
  const TrainingValues update = UpdateSection(graph, optimizer).build(backward.accumulators());
  values.update_scalars = update.update_scalars;
  values.gradient_norm = update.gradient_norm;
  values.report = update.report;
  values.reported = update.reported;
  graph.results.insert(graph.results.end(), {values.gradient_norm, values.report});
  sort_sections(graph);
  verify(graph);
  return values;
}

}  // namespace plimsoll
