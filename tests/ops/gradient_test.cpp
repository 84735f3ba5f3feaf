// Every op's gradient rule: its nodes, run by their kernels, against central differences of the op's fp64 reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "autodiff/dense_run.h"
#include "graph/gradient.h"
#include "ops/cases/bound_case.h"
#include "ops/families.h"

namespace plimsoll::test {
namespace {

// The inputs that want a gradient, and those of them that have an accumulator for it.
struct Setting {
  std::set<std::size_t> wants, accumulators;
};

// A graph of one forward node and the nodes of its gradient rule.
class OneNode : public GradientContext {
 public:
  OneNode(const OpCases& cases, const OpCase& a_case, const Setting& setting)
      : builder_(graph_), setting_(setting), contributions_(a_case.inputs.size()), accumulators_(a_case.inputs.size()) {
    builder_.set_line("case");
    for (std::size_t i = 0; i < a_case.inputs.size(); ++i) {
      inputs_.push_back(builder_.add_persistent("input", a_case.inputs[i].type, Role::parameter));
      if (setting.accumulators.contains(i)) {
        accumulators_[i] = builder_.add_persistent("accumulator", a_case.inputs[i].type, Role::accumulator);
      }
    }
    std::vector<std::string> names(output_types(*cases.op, a_case).size(), "output");
    builder_.add_random(*cases.op, a_case.attributes, inputs_, names, 42);
    node_ = graph_.nodes[NodeId{0}];
    if (!cases.root_scale) seed_ = builder_.add_persistent("seed", ValueType(builder_.type(node_.outputs[0])), Role::input);
    builder_.set_section(Section::micro, /*backward=*/true);
    node_.op->gradient(*this);
    verify(graph_);
    expect_no_waste();
  }

  const Graph& graph() const { return graph_; }
  const std::vector<ValueId>& inputs() const { return inputs_; }
  const std::vector<ValueId>& contributions() const { return contributions_; }
  const std::vector<ValueId>& accumulators() const { return accumulators_; }
  ValueId seed() const { return seed_; }

  GraphBuilder& builder() override { return builder_; }
  const Node& node() const override { return node_; }
  ValueId gradient(std::size_t output) const override { return output == 0 ? seed_ : ValueId{}; }
  bool wants(std::size_t input) const override { return setting_.wants.contains(input); }
  ValueId accumulator(std::size_t input) const override { return accumulators_.at(input); }
  bool shared(std::size_t) const override { return false; }
  RowAccumulators rows_apart(std::size_t) override { return {}; }
  void contribute(std::size_t input, ValueId gradient) override {
    EXPECT_TRUE(wants(input)) << "input " << input << " wants no gradient";
    EXPECT_FALSE(contributions_.at(input).valid()) << "input " << input << " gets a second gradient";
    EXPECT_TRUE(builder_.type(gradient) == builder_.type(inputs_[input]))
        << "the gradient of input " << input << " is of another type";
    contributions_.at(input) = gradient;
  }
  std::vector<ValueId> replace(const OpDef& op, Attributes attributes, std::vector<ValueId> inputs,
                               std::vector<std::string> names) override {
    replaces_ = true;
    return builder_.replace(NodeId{0}, op, std::move(attributes), std::move(inputs), std::move(names));
  }

 private:
  // A gradient that nobody asked for would still cost bytes and seconds.
  void expect_no_waste() const {
    std::set<ValueId> used(contributions_.begin(), contributions_.end());
    if (replaces_) used.insert(node_.outputs.begin(), node_.outputs.end());
    for (const Node& node : graph_.nodes) used.insert(node.inputs.begin(), node.inputs.end());
    for (const Node& node : graph_.nodes) {
      for (const ValueId output : node.backward ? node.outputs : std::vector<ValueId>{}) {
        EXPECT_TRUE(used.contains(output)) << node.op->name << " makes " << graph_.values[output].name.text() << " for nobody";
      }
    }
  }

  Graph graph_;
  GraphBuilder builder_;
  const Setting& setting_;
  Node node_;
  std::vector<ValueId> inputs_, contributions_, accumulators_;
  ValueId seed_;
  bool replaces_ = false;
};

// The scalar that is differentiated: the product of the first output and the gradient that flows into it.
double objective(const OpCases& cases, const OpCase& a_case, const std::vector<Numbers>& inputs, const Numbers& seed) {
  const Numbers out = reference_outputs(cases, a_case, inputs)[0];
  double sum = 0;
  for (std::size_t i = 0; i < out.size(); ++i) sum += out[i] * seed[i];
  return sum;
}

double difference_quotient(const OpCases& cases, const OpCase& a_case, std::vector<Numbers> inputs, const Numbers& seed,
                           std::size_t input, std::size_t element) {
  constexpr double kStep = 1e-4;
  const double x = inputs[input][element];
  inputs[input][element] = x + kStep;
  const double above = objective(cases, a_case, inputs, seed);
  inputs[input][element] = x - kStep;
  return (above - objective(cases, a_case, inputs, seed)) / (2 * kStep);
}

// The derivative by one element of one input.
struct Expected {
  std::size_t input, element;
  double derivative;
};

class Gradient : public testing::TestWithParam<const OpDef*> {
 protected:
  const OpCases& cases() const { return *find_cases(*GetParam()); }

  Numbers seed_of(const OpCase& a_case, const std::vector<Numbers>& inputs) const {
    const ValueType type = output_types(*cases().op, a_case)[0];
    if (cases().root_scale) return Numbers(elements(type), inputs[*cases().root_scale][0]);
    const OpCase seeds{{}, {{type, {}}}};
    return fill_inputs(seeds, 2)[0];
  }

  // Compares a dozen elements of each input, including the first and the last.
  std::vector<Expected> differentiate(const OpCase& a_case, const std::set<std::size_t>& wanted) const {
    const std::vector<Numbers> inputs = fill_inputs(a_case, 1);
    const Numbers seed = seed_of(a_case, inputs);
    std::vector<Expected> result;
    for (const std::size_t input : wanted) {
      const std::size_t n = inputs[input].size(), step = std::max<std::size_t>(1, n / 11);
      for (std::size_t i = 0; i < n; i = i + step < n || i == n - 1 ? i + step : n - 1) {
        result.push_back({input, i, difference_quotient(cases(), a_case, inputs, seed, input, i)});
      }
    }
    return result;
  }

  void check(const OpCase& a_case, const Setting& setting, const std::vector<Expected>& expected) const {
    const std::vector<Numbers> inputs = fill_inputs(a_case, 1);
    const OneNode one(cases(), a_case, setting);
    DenseRun run(one.graph());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      run.set(one.inputs()[i], inputs[i]);
      if (one.accumulators()[i].valid()) run.set(one.accumulators()[i], Numbers(inputs[i].size(), 0.5));
    }
    if (one.seed().valid()) run.set(one.seed(), seed_of(a_case, inputs));
    run.run(Section::micro, /*window_start=*/false);
    for (const std::size_t input : setting.wants) {
      SCOPED_TRACE("gradient of input " + std::to_string(input));
      const ValueId contribution = one.contributions()[input];
      ASSERT_TRUE(contribution.valid());
      const bool added = one.graph().values[contribution].version_of.valid();
      EXPECT_TRUE(!added || one.graph().values[contribution].version_of == one.accumulators()[input]);
      Numbers gradient = run.get(contribution);
      for (double& x : gradient) x -= added ? 0.5 : 0;
      compare(gradient, input, expected, tolerance(a_case.inputs[input].type.dtype));
    }
  }

  static void compare(const Numbers& gradient, std::size_t input, const std::vector<Expected>& expected, double tolerance) {
    double scale = 0.5;
    for (const double x : gradient) scale = std::max(scale, std::abs(x));
    for (const Expected& each : expected) {
      if (each.input != input) continue;
      ASSERT_NEAR(gradient[each.element], each.derivative, scale * tolerance) << "element " << each.element;
    }
  }
};

TEST_P(Gradient, AgreesWithFiniteDifferences) {
  for (const OpCase& a_case : cases().cases) {
    std::set<std::size_t> wanted;
    for (std::size_t i = 0; i < a_case.inputs.size(); ++i) {
      if (a_case.inputs[i].differentiable && !a_case.benchmark) wanted.insert(i);
    }
    if (wanted.empty()) continue;
    SCOPED_TRACE(describe(*GetParam(), a_case));
    const std::vector<Expected> expected = differentiate(a_case, wanted);
    check(a_case, {wanted, {}}, expected);
    check(a_case, {wanted, wanted}, expected);
    if (wanted.size() == 1) continue;
    check(a_case, {wanted, {*wanted.rbegin()}}, expected);
    for (const std::size_t only : wanted) {
      check(a_case, {{only}, {}}, expected);
      check(a_case, {{only}, {only}}, expected);
      std::set<std::size_t> others = wanted;
      others.erase(only);
      check(a_case, {others, others}, expected);
    }
  }
}

std::vector<const OpDef*> differentiable_ops() {
  std::vector<const OpDef*> list;
  std::copy_if(ops::all_ops().begin(), ops::all_ops().end(), std::back_inserter(list),
               [](const OpDef* op) { return op->gradient != nullptr; });
  return list;
}

INSTANTIATE_TEST_SUITE_P(Ops, Gradient, testing::ValuesIn(differentiable_ops()),
                         [](const auto& each) { return std::string(each.param->name); });

}  // namespace
}  // namespace plimsoll::test
