// Walks ops/families.h and demands from each op all parts that planning, running and testing need.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "ops/attention/attention.h"
#include "ops/cases/cases.h"
#include "ops/cuda_kernel.h"
#include "ops/families.h"
#include "ops/kernel.h"
#include "ops/norm/norm.h"
#include "ops/reduce/reduce.h"

namespace plimsoll::test {
namespace {

// An op that computes on one width alone lists the inputs of that width, and has no other rule for widths.
TEST(AlikeOps, SayTheirInputs) {
  int alike = 0;
  for (const OpDef* op : ops::all_ops()) {
    if (!op->alike) continue;
    ++alike;
    EXPECT_NE(op->either, nullptr) << op->name;
    EXPECT_EQ(op->narrow, nullptr) << op->name;
    EXPECT_EQ(op->rounded, nullptr) << op->name;
  }
  EXPECT_EQ(alike, 18);
}

// Each family has a folder in src/ops.
TEST(Families, AreTheFolders) {
#define PLIMSOLL_NAME(NAME) #NAME,
  const std::set<std::string> both{PLIMSOLL_OP_FAMILIES(PLIMSOLL_NAME, PLIMSOLL_NO_FAMILY)},
      cpu_only{PLIMSOLL_OP_FAMILIES(PLIMSOLL_NO_FAMILY, PLIMSOLL_NAME)};
#undef PLIMSOLL_NAME
  int folders = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(PLIMSOLL_SOURCE_DIR) + "/src/ops")) {
    if (!entry.is_directory()) continue;
    ++folders;
    const std::string name = entry.path().filename();
    EXPECT_TRUE(both.contains(name) != cpu_only.contains(name)) << name << " is to be in ops/families.h once";
    EXPECT_EQ(both.contains(name), exists(entry.path() / "cuda.cu")) << name;
  }
  EXPECT_EQ(folders, both.size() + cpu_only.size());
}

// Code for all families names none of them. Only the list does.
TEST(Families, AreListedOnce) {
  std::string families = "(";
#define PLIMSOLL_NAME(NAME) families += #NAME "|";
  PLIMSOLL_OP_FAMILIES(PLIMSOLL_NAME, PLIMSOLL_NAME)
#undef PLIMSOLL_NAME
  families.back() = ')';
  const std::regex named("\\b" + families + "(_ops|_cpu_kernels|_cuda_kernels|_cases)\\b|#include \"ops/" + families +
                         "/(?!tiles)");
  int files = 0;
  for (const char* folder : {"/src/ops", "/tests/ops/cases"}) {
    for (const auto& entry : std::filesystem::directory_iterator(std::string(PLIMSOLL_SOURCE_DIR) + folder)) {
      const std::string name = entry.path().filename(), stem = entry.path().stem();
      const bool of_family = std::regex_match(stem, std::regex(families));
      if (!entry.is_regular_file() || of_family || name == "CMakeLists.txt") continue;
      ++files;
      std::ifstream file(entry.path());
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      std::smatch match;
      EXPECT_FALSE(std::regex_search(text, match, named)) << name << ": " << match.str();
    }
  }
  EXPECT_GT(files, 10);
}

class Completeness : public testing::TestWithParam<const OpDef*> {
 protected:
  // True if the op's rule refuses these inputs with E-SHAPE.
  bool refuses(const OpCase& a_case, const std::vector<ValueType>& inputs) const {
    try {
      op().infer(a_case.attributes, inputs);
    } catch (const Error& error) {
      return error.code == "E-SHAPE";
    }
    return false;
  }
  const OpDef& op() const { return *GetParam(); }
  const std::vector<OpCase>& cases() const {
    static const std::vector<OpCase> none;
    const OpCases* found = find_cases(op());
    return found == nullptr ? none : found->cases;
  }
};

TEST(Ops, HaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const OpDef* op : ops::all_ops()) EXPECT_TRUE(!op->name.empty() && names.insert(op->name).second) << op->name;
}

TEST(Ops, HaveCasesOnlyIfTheyAreListed) {
  for (const OpCases& cases : all_cases()) {
    EXPECT_NE(std::find(ops::all_ops().begin(), ops::all_ops().end(), cases.op), ops::all_ops().end()) << cases.op->name;
  }
}

TEST_P(Completeness, TypesCostAndKernel) {
  EXPECT_NE(op().infer, nullptr);
  EXPECT_NE(op().cost, nullptr);
  EXPECT_TRUE(op().view || find_cpu_kernel(op()) != nullptr);
}

// A plan is made without asking the module that has the kernels.
TEST_P(Completeness, PlansForAGpuKnowWhetherThereIsAKernel) {
  const OpCase& a_case = cases().front();
  const std::vector<ValueType> inputs = input_types(a_case), outputs = output_types(op(), a_case);
  const KernelRequest request{.op = &op(), .attributes = &a_case.attributes, .inputs = inputs, .outputs = outputs};
  std::string refusal;
  try {
    choose_cuda(request);
  } catch (const Error& error) {
    refusal = error.what();
    EXPECT_EQ(error.code, "E-CUDA-OP");
    EXPECT_EQ(error.where, op().name);
  }
  EXPECT_EQ(refusal.empty(), find_cuda_kernel(op()) != nullptr) << refusal;
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

// Accumulators of a window are tested both ways, adding and writing.
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

// A value takes the bytes of another one only if both have the same size. The widths of an op's values decide it where they
// differ: planning compares the sizes. An update keeps the whole type.
TEST_P(Completeness, AliasesNameWhatThereIs) {
  for (const OpCase& a_case : cases()) {
    SCOPED_TRACE(describe(op(), a_case));
    const std::vector<ValueType> inputs = input_types(a_case), outputs = output_types(op(), a_case);
    for (const Alias& alias : aliases_of(op(), a_case.attributes)) {
      ASSERT_LT(alias.input, inputs.size());
      ASSERT_LT(alias.output, outputs.size());
      const ValueType &from = inputs[alias.input], &to = outputs[alias.output];
      const bool mixed = alias.kind == AliasKind::may_overwrite && op().either != nullptr && !op().alike;
      if (mixed) EXPECT_EQ(from.shape, to.shape);
      if (!mixed) EXPECT_EQ(dense_bytes(from.shape, from.dtype), dense_bytes(to.shape, to.dtype));
      EXPECT_TRUE(!in_place(alias.kind) || from == to);
      EXPECT_EQ(alias.kind == AliasKind::view, op().view);
    }
  }
}

// An op that takes one input less or more than it should refuses with E-SHAPE.
TEST_P(Completeness, RefusesAnotherNumberOfInputs) {
  if (op().name == "clip" || op().name == "report") return;  // they take any number
  const OpCase& a_case = cases().front();
  std::vector<ValueType> inputs = input_types(a_case);
  inputs.push_back(inputs.back());
  EXPECT_TRUE(refuses(a_case, inputs));
  inputs.resize(inputs.size() - 2);
  EXPECT_TRUE(refuses(a_case, inputs));
}

// Kernels read the bytes of each input as one dtype.
TEST_P(Completeness, RefusesOtherDtypes) {
  if (op().name == "reshape") return;  // it moves no byte
  for (const OpCase& a_case : cases()) {
    SCOPED_TRACE(describe(op(), a_case));
    for (std::size_t i = 0; i < a_case.inputs.size(); ++i) {
      for (const DType other : {DType::f64, DType::u8}) {
        std::vector<ValueType> inputs = input_types(a_case);
        if (inputs[i].dtype == other) continue;
        inputs[i].dtype = other;
        EXPECT_TRUE(refuses(a_case, inputs)) << "input " << i << " of " << name(other);
      }
    }
  }
}

std::vector<ValueType> f32_of(const std::vector<Shape>& shapes) {
  std::vector<ValueType> types;
  for (const Shape& shape : shapes) types.push_back({DType::f32, shape});
  return types;
}

void expect_refusal(const OpDef& op, const Attributes& attributes, const std::vector<Shape>& shapes) {
  try {
    op.infer(attributes, f32_of(shapes));
    ADD_FAILURE() << op.name << " accepts";
  } catch (const Error& error) {
    EXPECT_EQ(error.code, "E-SHAPE") << error.what();
  }
}

TEST(TypeRules, ScalarsHaveNoLastAxis) {
  const Shape scalar, one{1};
  expect_refusal(ops::kLayerNorm, ops::LayerNormAttributes{}, {scalar, one, one});
  expect_refusal(ops::kLayerNormBackward, ops::LayerNormBackwardAttributes{}, {scalar, scalar, one, one, one});
  expect_refusal(ops::kSumRows, ops::AccumulateAttributes{}, {scalar});
}

TEST(TypeRules, LayerNormBackwardComparesEveryInput) {
  const std::vector<Shape> good{{2, 3, 5}, {2, 3, 5}, {6}, {6}, {5}, {5}, {5}};
  const ops::LayerNormBackwardAttributes accumulate{true};
  EXPECT_NO_THROW(ops::kLayerNormBackward.infer(accumulate, f32_of(good)));
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::vector<Shape> bad = good;
    bad[i][bad[i].rank() - 1] += 1;
    expect_refusal(ops::kLayerNormBackward, accumulate, bad);
  }
}

TEST(TypeRules, AttentionBackwardComparesEveryInput) {
  const ops::QkvLayout layout{2, 2};
  const ops::AttentionBackwardAttributes attributes{{layout}};
  std::vector<ValueType> good = f32_of({{2, 3, 24}, {2, 2}, {2, 3, 8}, {2, 2, 3}, {2, 3, 8}});
  good[1].dtype = DType::u32;
  EXPECT_NO_THROW(ops::kAttentionBackward.infer(attributes, good));
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::vector<ValueType> bad = good;
    bad[i].shape[1] += 1;
    EXPECT_THROW(ops::kAttentionBackward.infer(attributes, bad), Error) << i;
    bad = good;
    bad[i].dtype = DType::f64;
    EXPECT_THROW(ops::kAttentionBackward.infer(attributes, bad), Error) << i;
    bad[i].dtype = DType::bf16;
    const bool either = i != 1 && i != 3;
    if (either) EXPECT_EQ(ops::kAttentionBackward.infer(attributes, bad)[0].dtype, DType::f32);
    if (!either) EXPECT_THROW(ops::kAttentionBackward.infer(attributes, bad), Error);
  }
  const auto forward = [&](const ops::AttentionAttributes& of) { ops::kAttention.infer(of, std::span(good).first(2)); };
  EXPECT_NO_THROW(forward({layout}));
  EXPECT_THROW(forward({.layout = layout, .output = DType::i32}), Error);
  EXPECT_THROW(forward({.layout = {2, 3}}), Error);
  EXPECT_THROW(forward({.layout = {0, 0}}), Error);
}

INSTANTIATE_TEST_SUITE_P(Ops, Completeness, testing::ValuesIn(ops::all_ops()),
                         [](const auto& each) { return std::string(each.param->name); });

}  // namespace
}  // namespace plimsoll::test
