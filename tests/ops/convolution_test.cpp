// Rules of convolution and pooling: what they refuse, and the nodes that they make.
#include "ops/convolution/convolution.h"

#include <gtest/gtest.h>

#include "graph/graph.h"
#include "ops/matmul/matmul.h"
#include "ops/pooling/pooling.h"

namespace plimsoll::ops {
namespace {

// The message of an E-SHAPE.
std::string refusal(const OpDef& op, const Attributes& attributes, const std::vector<ValueType>& inputs) {
  try {
    op.infer(attributes, inputs);
  } catch (const Error& error) {
    EXPECT_EQ(error.code, "E-SHAPE");
    return error.what();
  }
  return {};
}
ValueType f32(Shape shape) { return {DType::f32, std::move(shape)}; }

void expect_text(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
}

TEST(ConvolutionRules, SizesFollowFromWindowAndPadding) {
  const auto size_of = [](std::int64_t size, std::int64_t kernel, Window window) {
    return kConvolution
        .infer(ConvolutionAttributes{.window = window}, std::vector{f32({2, size, size, 3}), f32({kernel, kernel, 3, 5})})[0]
        .shape;
  };
  EXPECT_EQ(size_of(224, 7, square_window(2, 3)), (Shape{2, 112, 112, 5}));
  EXPECT_EQ(size_of(7, 3, square_window(2)), (Shape{2, 3, 3, 5}));
  EXPECT_EQ(size_of(8, 3, {2, 2, 0, 1, 0, 1}), (Shape{2, 4, 4, 5}));
  EXPECT_EQ(size_of(5, 3, {1, 2, 1, 1, 0, 1}), (Shape{2, 5, 2, 5}));
}

TEST(ConvolutionRules, RefuseWithBothShapes) {
  const ConvolutionAttributes plain, grouped{.groups = 2}, biased{.bias = true}, steps{.window = {0, 1}},
      padded{.window = {1, 1, -1}}, narrow{.output = DType::bf16};
  const ValueType x = f32({2, 8, 8, 4}), w = f32({3, 3, 4, 6});
  EXPECT_EQ(refusal(kConvolution, plain, {x, w}), "");
  expect_text(refusal(kConvolution, plain, {x, f32({3, 3, 5, 6})}), {"(2, 8, 8, 4)", "(3, 3, 5, 6)", "1 groups"});
  expect_text(refusal(kConvolution, grouped, {x, w}), {"(2, 8, 8, 4)", "(3, 3, 4, 6)", "2 groups"});
  expect_text(refusal(kConvolution, grouped, {x, f32({3, 3, 2, 5})}), {"4 input and 5 output channels", "2 groups"});
  expect_text(refusal(kConvolution, plain, {f32({2, 2, 8, 4}), w}), {"3 x 3", "(2, 2, 8, 4)", "2 x 8"});
  expect_text(refusal(kConvolution, plain, {f32({8, 8, 4}), w}), {"(8, 8, 4)", "(batch, height, width, channels)"});
  expect_text(refusal(kConvolution, plain, {x, f32({36, 6})}), {"(36, 6)", "(kernel height, kernel width"});
  expect_text(refusal(kConvolution, biased, {x, w, f32(Shape{5})}), {"the bias", "(5)", "(6)"});
  expect_text(refusal(kConvolution, steps, {x, w}), {"0 x 1", "1 or more"});
  expect_text(refusal(kConvolution, padded, {x, w}), {"-1, 0, 0, 0"});
  expect_text(refusal(kConvolution, narrow, {x, w}), {"the output is bf16"});
}

TEST(ConvolutionRules, GradientsCompareEveryShape) {
  const Window window = square_window(2, 1);
  const ConvolutionInputAttributes input{window, 1, 9, 8};
  EXPECT_EQ(refusal(kConvolutionInput, input, {f32({2, 5, 4, 6}), f32({3, 3, 4, 6})}), "");
  expect_text(refusal(kConvolutionInput, input, {f32({2, 4, 4, 6}), f32({3, 3, 4, 6})}),
              {"(2, 4, 4, 6)", "(2, 9, 8, 4)", "(2, 5, 4, 6)"});
  expect_text(refusal(kConvolutionInput, input, {f32({2, 5, 4, 6}), f32({3, 3, 4, 7})}), {"(2, 5, 4, 6)", "(2, 5, 4, 7)"});
  const ConvolutionWeightAttributes weight{window, 1, 3, 3}, adding{window, 1, 3, 3, true};
  EXPECT_EQ(refusal(kConvolutionWeight, weight, {f32({2, 9, 8, 4}), f32({2, 5, 4, 6})}), "");
  expect_text(refusal(kConvolutionWeight, weight, {f32({2, 9, 8, 4}), f32({3, 5, 4, 6})}),
              {"(3, 5, 4, 6)", "(2, 9, 8, 4)", "(2, 5, 4, 6)"});
  expect_text(refusal(kConvolutionWeight, adding, {f32({2, 9, 8, 4}), f32({2, 5, 4, 6}), f32({3, 3, 6, 4})}),
              {"the accumulator", "(3, 3, 6, 4)", "(3, 3, 4, 6)"});
}

TEST(ConvolutionRules, CostsCountEachProductOnce) {
  const std::vector inputs{f32({2, 8, 8, 4}), f32({3, 3, 2, 6})};
  const ConvolutionAttributes attributes{.window = square_window(1, 1), .groups = 2};
  const auto outputs = kConvolution.infer(attributes, inputs);
  const Cost cost = kConvolution.cost(attributes, inputs, outputs);
  EXPECT_EQ(cost.flops, 2.0 * (2 * 8 * 8 * 6) * (3 * 3 * 2));
  EXPECT_EQ(cost.bytes, 4.0 * (2 * 8 * 8 * 4 + 3 * 3 * 2 * 6 + 2 * 8 * 8 * 6));
}

TEST(PoolingRules, RefuseWindowsWithoutPixels) {
  const ValueType x = f32({2, 8, 8, 4});
  EXPECT_EQ(refusal(kMaxPool, PoolAttributes{3, 3, square_window(2, 1)}, {x}), "");
  expect_text(refusal(kMaxPool, PoolAttributes{2, 3, square_window(2, 2)}, {x}), {"2 x 3", "less padding than kernel"});
  expect_text(refusal(kMaxPool, PoolAttributes{9, 9, square_window(1)}, {x}), {"9 x 9", "(2, 8, 8, 4)"});
  expect_text(refusal(kMaxPool, PoolAttributes{17, 17, square_window(1, 8)}, {f32({2, 32, 32, 4})}), {"17 x 17", "256 places"});
  expect_text(refusal(kMaxPoolBackward, PoolBackwardAttributes{3, 3, square_window(2, 1), 8, 8},
                      {f32({2, 8, 8, 4}), {DType::u8, {2, 8, 8, 4}}}),
              {"(2, 8, 8, 4)", "(2, 4, 4, 4)"});
  expect_text(refusal(kMeanPool, MeanPoolAttributes{}, {f32({2, 4})}), {"(2, 4)"});
  expect_text(refusal(kMeanPoolBackward, MeanPoolBackwardAttributes{{2, 3, 4}}, {f32({3, 4})}), {"(3, 4)", "(2, 3, 4)"});
}

// A weight of two axes makes an ordinary linear layer, which adapters and stored formats know.
TEST(Convolution, PatchesAreALinearLayer) {
  Graph graph;
  GraphBuilder builder(graph);
  const ValueId x = builder.add_input("pixels", f32({2, 32, 24, 3}));
  const ValueId weight = builder.add_persistent("weight", f32({8 * 8 * 3, 16}), Role::parameter);
  const ValueId y = convolution(builder, x, weight, {}, {.window = {8, 8}}, "y");
  EXPECT_EQ(builder.shape(y), (Shape{2, 4, 3, 16}));
  ASSERT_EQ(graph.nodes.size(), 2U);
  EXPECT_EQ(graph.nodes[NodeId{0}].op, &kPatches);
  EXPECT_EQ(graph.nodes[NodeId{1}].op, &kMatmul);
  EXPECT_EQ(graph.nodes[NodeId{1}].inputs[1], weight);
  const ValueId point = builder.add_persistent("point", f32({16, 5}), Role::parameter);
  EXPECT_EQ(builder.shape(convolution(builder, y, point, {}, {}, "z")), (Shape{2, 4, 3, 5}));
  EXPECT_EQ(graph.nodes.size(), 3U);
  EXPECT_THROW(convolution(builder, x, weight, {}, {.window = {8, 8, 1}}, "padded"), Error);
}

}  // namespace
}  // namespace plimsoll::ops
