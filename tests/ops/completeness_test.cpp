// Walks ops/all.h and demands of each op what planning, running and testing need of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "ops/all.h"
#include "ops/cases/cases.h"
#include "ops/kernel.h"

namespace plimsoll::test {
namespace {

class Completeness : public testing::TestWithParam<const OpDef*> {
 protected:
  const OpDef& op() const { return *GetParam(); }
  const std::vector<OpCase>& cases() const {
    static const std::vector<OpCase> none;
    const OpCases* found = find_cases(op());
    return found == nullptr ? none : found->cases;
  }
};

TEST(Ops, HaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const OpDef* op : ops::kAllOps) EXPECT_TRUE(!op->name.empty() && names.insert(op->name).second) << op->name;
}

TEST(Ops, HaveCasesOnlyIfTheyAreListed) {
  for (const OpCases& cases : all_cases()) {
    EXPECT_NE(std::find(ops::kAllOps.begin(), ops::kAllOps.end(), cases.op), ops::kAllOps.end()) << cases.op->name;
  }
}

TEST_P(Completeness, TypesCostAndKernel) {
  EXPECT_NE(op().infer, nullptr);
  EXPECT_NE(op().cost, nullptr);
  EXPECT_TRUE(op().view || find_cpu_kernel(op()) != nullptr);
}

TEST_P(Completeness, GradientOrTheReasonWhyThereIsNone) { EXPECT_NE(op().gradient != nullptr, !op().not_differentiable.empty()); }

TEST_P(Completeness, ThreeShapesAndAReference) {
  const OpCases* found = find_cases(op());
  ASSERT_NE(found, nullptr);
  EXPECT_NE(found->reference, nullptr);
  std::set<std::string> shapes;
  bool differentiable = false;
  for (const OpCase& a_case : found->cases) {
    if (a_case.benchmark) continue;
    std::string types;
    for (const CaseInput& input : a_case.inputs) types += std::string(name(input.type.dtype)) + to_text(input.type.shape);
    shapes.insert(types);
    differentiable |=
        std::any_of(a_case.inputs.begin(), a_case.inputs.end(), [](const CaseInput& input) { return input.differentiable; });
  }
  EXPECT_GE(shapes.size(), 3U);
  EXPECT_TRUE(differentiable || op().gradient == nullptr);
}

// What is updated in a window is tested both ways, adding and writing.
TEST_P(Completeness, AccumulatingCasesComeWithOverwritingOnes) {
  bool accumulates = false, overwrites = false;
  for (const OpCase& a_case : cases()) {
    const bool adds = a_case.attributes.text().find("accumulate=true") != std::string::npos;
    (a_case.overwrite ? overwrites : accumulates) |= adds;
  }
  EXPECT_EQ(accumulates, overwrites);
}

TEST_P(Completeness, CostsAreFiniteAndNotNegative) {
  for (const OpCase& a_case : cases()) {
    SCOPED_TRACE(describe(op(), a_case));
    const Cost cost = op().cost(a_case.attributes, input_types(a_case), output_types(op(), a_case));
    EXPECT_TRUE(std::isfinite(cost.flops) && cost.flops >= 0);
    EXPECT_TRUE(std::isfinite(cost.bytes) && cost.bytes >= 0);
    EXPECT_EQ(cost.bytes > 0, !op().view);
  }
}

// A value takes the bytes of another one only where both are of one size; an update keeps the whole type.
TEST_P(Completeness, AliasesNameWhatThereIs) {
  for (const OpCase& a_case : cases()) {
    SCOPED_TRACE(describe(op(), a_case));
    const std::vector<ValueType> inputs = input_types(a_case), outputs = output_types(op(), a_case);
    for (const Alias& alias : aliases_of(op(), a_case.attributes)) {
      ASSERT_LT(alias.input, inputs.size());
      ASSERT_LT(alias.output, outputs.size());
      const ValueType &from = inputs[alias.input], &to = outputs[alias.output];
      EXPECT_EQ(dense_bytes(from.shape, from.dtype), dense_bytes(to.shape, to.dtype));
      EXPECT_TRUE(alias.kind != AliasKind::updates || from == to);
      EXPECT_EQ(alias.kind == AliasKind::view, op().view);
    }
  }
}

// An op that takes one input less or more than it should refuses with E-SHAPE.
TEST_P(Completeness, RefusesAnotherNumberOfInputs) {
  if (op().name == "clip") return;  // it takes any number
  const OpCase& a_case = cases().front();
  std::vector<ValueType> inputs = input_types(a_case);
  const auto refuses = [&] {
    try {
      op().infer(a_case.attributes, inputs);
    } catch (const Error& error) {
      return error.code == "E-SHAPE";
    }
    return false;
  };
  inputs.push_back(inputs.back());
  EXPECT_TRUE(refuses());
  inputs.resize(inputs.size() - 2);
  EXPECT_TRUE(refuses());
}

INSTANTIATE_TEST_SUITE_P(Ops, Completeness, testing::ValuesIn(ops::kAllOps),
                         [](const auto& each) { return std::string(each.param->name); });

}  // namespace
}  // namespace plimsoll::test
