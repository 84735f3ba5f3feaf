// Row norms on a GPU, over the emulation: properties that the op cases do not test.
#include <gtest/gtest.h>

#include "ops/adapter/adapter.h"
#include "ops/cases/bound_case.h"

namespace plimsoll::test {
namespace {

// Both storages of W have the same sums.
TEST(CudaRowNorms, HaveTheSameBitsForBothStoragesOfW) {
  constexpr std::int64_t kRows = 70, kColumns = 300, kRank = 5;
  const ops::RowNormAttributes attributes{0.75, /*inputs_first=*/false};
  OpCase outputs_first{attributes, {f32({kRows}), f32({kRows, kColumns}), f32({kRank, kColumns}), f32({kRows, kRank})}};
  OpCase inputs_first = outputs_first;
  inputs_first.attributes = ops::RowNormAttributes{0.75, /*inputs_first=*/true};
  inputs_first.inputs[1] = f32({kColumns, kRows});
  std::vector<Numbers> inputs = fill_inputs(outputs_first, 1);
  BoundCase plain(ops::kRowNorms, outputs_first, inputs, {.backend = &kCuda});
  plain.run();
  const Numbers w = inputs[1];
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t column = 0; column < kColumns; ++column) inputs[1][column * kRows + row] = w[row * kColumns + column];
  }
  BoundCase transposed(ops::kRowNorms, inputs_first, inputs, {.backend = &kCuda});
  transposed.run();
  EXPECT_TRUE(plain.output_bytes() == transposed.output_bytes());
}

TEST(CudaRowNorms, OfAMatrixInBlocksAreRefusedByName) {
  const ops::RowNormAttributes attributes{1, false, BlockMatrix{BlockFormat::nf4, 4, 64}};
  const Attributes any = attributes;
  const OpCase a_case{any, {f32({4}), {{DType::u8, Shape{stored_bytes(*attributes.blocks).n}}, {}}, f32({2, 64}), f32({4, 2})}};
  const std::vector<ValueType> types = input_types(a_case), outputs = output_types(ops::kRowNorms, a_case);
  try {
    kCuda.choose({.op = &ops::kRowNorms, .attributes = &any, .inputs = types, .outputs = outputs});
    FAIL() << "it plans";
  } catch (const Error& error) {
    EXPECT_EQ(error.code, "E-CUDA-OP");
    EXPECT_NE(error.message.find("W in blocks of nf4"), std::string::npos) << error.message;
  }
}

}  // namespace
}  // namespace plimsoll::test
