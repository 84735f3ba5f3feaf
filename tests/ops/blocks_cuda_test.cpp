// Frozen matrices in blocks on a GPU: properties that the op cases do not test.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/block_matmul/block_matmul.h"
#include "ops/block_matmul/cuda.h"
#include "ops/cases/bound_case.h"
#include "ops/cases/stored_matrix.h"
#include "ops/embedding/embedding.h"
#include "ops/loss/loss.h"

namespace plimsoll::test {
namespace {

// Bytes are filled first, so `derive` finds them.
std::vector<Numbers> filled(const OpCase& a_case) { return fill_inputs(a_case, 1); }

TEST(CudaBlocks, LookedUpRowsHaveTheBitsOfDecodeBlocks) {
  for (const BlockFormat format : kBlockFormats) {
    for (const std::int64_t width : {256, 65}) {
      if (width == 65 && !scales_apart(format)) continue;
      const BlockMatrix matrix{format, 41, width};
      const ops::EmbeddingAttributes attributes{ops::LearnedPositions::none, -1, matrix};
      const OpCase looking = with_blocks(format, 1, {attributes, {i32({1, 41}, 0, 41), f32({41, width})}});
      std::vector<Numbers> inputs = filled(looking);
      for (std::size_t i = 0; i < 41; ++i) inputs[0][i] = static_cast<double>(i);
      BoundCase bound(ops::kEmbedding, looking, inputs, {.backend = &kCuda});
      bound.run();
      EXPECT_EQ(bound.outputs()[0], elements_of(matrix, inputs[1])) << name(format) << " of width " << width;
    }
  }
}

// Strips follow from the shape, and the last one is shorter.
TEST(CudaBlocks, AMatrixOfSeveralStripsIsMultipliedLikeOneOfAny) {
  for (const bool transposed : {false, true}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const std::int64_t k = dtype == DType::f32 ? 2176 : 4224, n = 4500;
      const BlockMatrix matrix{BlockFormat::nf4, transposed ? n : k, transposed ? k : n};
      const ops::BlockMatmulAttributes attributes{.blocks = matrix, .transposed = transposed, .bias = true, .output = dtype};
      OpCase product = with_blocks(matrix.format, 1, {attributes, {f32({1, k}), f32({matrix.rows, matrix.columns}), f32({n})}});
      product.inputs[0].type.dtype = dtype;
      const std::vector<ValueType> in = input_types(product), out = output_types(ops::kBlockMatmul, product);
      const KernelRequest request{.op = &ops::kBlockMatmul, .attributes = &product.attributes, .inputs = in, .outputs = out};
      const CudaStrips strips(request);
      EXPECT_EQ(strips.columns, 2304);
      EXPECT_LE(k * strips.columns * size_of(dtype), CudaStrips::kMostBytes);
      const std::vector<Numbers> inputs = filled(product);
      BoundCase bound(ops::kBlockMatmul, product, inputs, {.backend = &kCuda});
      bound.run();
      EXPECT_EQ(bound.faults(), "");
      const Numbers y = bound.outputs()[0], w = round_to(elements_of(matrix, inputs[1]), dtype);
      double largest = 0, worst = 0;
      for (std::size_t column = 0; column < extent(n); ++column) {
        double sum = inputs[2][column];
        for (std::size_t i = 0; i < extent(k); ++i)
          sum += inputs[0][i] * w[transposed ? column * extent(k) + i : i * extent(n) + column];
        largest = std::max(largest, std::abs(sum)), worst = std::max(worst, std::abs(sum - y[column]));
      }
      EXPECT_LE(worst, 2 * tolerance(dtype) * largest) << name(dtype) << (transposed ? ", transposed" : "");
    }
  }
}

// Where tokens and words fill no whole tiles, a token's loss is the same as alone (verl #2899).
TEST(CudaBlocks, ALossDoesNotDependOnTilesThatItDoesNotFill) {
  for (const std::int64_t vocab : {64, 67, 129}) {
    const BlockMatrix table{BlockFormat::nf4, vocab, 8};
    const auto losses = [&](std::int64_t tokens, const std::vector<Numbers>& from) {
      const ops::LossAttributes attributes{.blocks = table};
      const OpCase of_tokens = with_blocks(
          table.format, 1,
          {attributes, {f32({1, tokens, 8}), f32({vocab, 8}), i32({1, tokens}, 0, static_cast<double>(vocab)), f32({1})}});
      std::vector<Numbers> inputs = filled(of_tokens);
      for (const std::size_t i : {0, 2}) {
        if (!from.empty()) inputs[i].assign(from[i].end() - std::ssize(inputs[i]), from[i].end());
      }
      BoundCase bound(ops::kLinearCrossEntropy, of_tokens, inputs, {.backend = &kCuda});
      bound.run();
      return std::pair(inputs, bound.outputs()[0]);
    };
    const auto [inputs, all] = losses(2053, {});
    const Numbers last = losses(5, inputs).second;
    EXPECT_EQ(Numbers(all.end() - 5, all.end()), last) << vocab;
    for (const double loss : all) EXPECT_TRUE(std::isfinite(loss) && loss > 0);
  }
}

}  // namespace
}  // namespace plimsoll::test
