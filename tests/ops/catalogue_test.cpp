// The sources of the catalogue's seconds.
#include <gtest/gtest.h>

#include "ops/attention/attention.h"
#include "ops/loss/loss.h"
#include "ops/matmul/matmul.h"
#include "ops/op_catalogue.h"

namespace plimsoll {
namespace {

constexpr Roofline kRoofline{.flops_per_second = 1e9, .bytes_per_second = 1e9, .step_seconds = 1e-3};

TEST(OpCatalogue, RecordedSecondsServeEverySeed) {
  const std::vector<ValueType> inputs{{DType::f32, {2, 6, 24}}, {DType::u32, {2, 2}}};
  const Attributes one = ops::AttentionAttributes{.layout = {2, 2}, .dropout = 0.1, .key = {1, 2}},
                   other = ops::AttentionAttributes{.layout = {2, 2}, .dropout = 0.1, .key = {3, 4}},
                   more = ops::AttentionAttributes{.layout = {2, 2}, .dropout = 0.2, .key = {1, 2}};
  const std::vector<ValueType> outputs = ops::kAttention.infer(one, inputs);
  const auto request = [&](const Attributes& attributes) {
    return KernelRequest{.op = &ops::kAttention, .attributes = &attributes, .inputs = inputs, .outputs = outputs, .threads = 2};
  };
  OpCatalogue catalogue(kRoofline, {{timing_key(request(one)), 0.25}});
  for (const Attributes* attributes : {&one, &other}) {
    const KernelChoice choice = catalogue.choose(request(*attributes));
    EXPECT_EQ(choice.seconds, 0.25);
    EXPECT_EQ(choice.source, CostSource::recorded);
  }
  EXPECT_EQ(catalogue.choose(request(more)).source, CostSource::bound);
}

TEST(OpCatalogue, ChunksTakeTheTimeOfTheWholeTimesTheirWork) {
  const std::vector<ValueType> inputs{
      {DType::f32, {1, 300, 16}}, {DType::f32, {4096, 16}}, {DType::i32, {1, 300}}, {DType::f32, Shape{1}}};
  const Attributes attributes = ops::LossAttributes{};
  const std::vector<ValueType> outputs = ops::kLinearCrossEntropyBackward.infer(attributes, inputs);
  KernelRequest request{.op = &ops::kLinearCrossEntropyBackward, .attributes = &attributes, .inputs = inputs, .outputs = outputs};
  OpCatalogue catalogue(kRoofline, {{timing_key(request), 0.5}});
  EXPECT_EQ(catalogue.choose(request).seconds, 0.5);
  request.chunks = 8;
  const KernelChoice chunked = catalogue.choose(request);
  EXPECT_GT(chunked.work, 1);
  EXPECT_EQ(chunked.seconds, 0.5 * chunked.work);
  EXPECT_EQ(chunked.source, CostSource::recorded);
}

// The library of a GPU is absent while planning. The algorithms that it chose during the measurement name its kernels.
TEST(OpCatalogue, AlgorithmsAreAPartOfTheName) {
  const std::vector<ValueType> inputs{{DType::bf16, {1, 64, 32}}, {DType::bf16, {32, 96}}};
  const Attributes product = ops::MatmulAttributes{};
  const std::vector<ValueType> outputs = ops::kMatmul.infer(product, inputs);
  const KernelRequest request{.op = &ops::kMatmul, .attributes = &product, .inputs = inputs, .outputs = outputs};
  const auto named = [&](std::map<std::string, std::string> algorithms) {
    return OpCatalogue(kRoofline, {}, kCudaKernels, std::move(algorithms)).choose(request).implementation;
  };
  EXPECT_EQ(named({}), "cublaslt");
  EXPECT_EQ(named({{timing_key(request), "1a2b"}}), "cublaslt 1a2b");
  EXPECT_EQ(named({{"another", "1a2b"}}), "cublaslt");
  KernelRequest chunked = request;
  chunked.chunks = 8;
  EXPECT_EQ(algorithm_key(chunked), timing_key(request)) << "what is measured in one piece holds for all chunks";
}

// Plans for the simulated machine rely on this: the catalogue asks no library and no processor.
TEST(OpCatalogue, WithoutALibraryOurOwnKernelRunsEveryProduct) {
  OpCatalogue catalogue(kRoofline, {}, kOwnCpuKernels);
  for (const std::int64_t tokens : {8, 300, 2048}) {
    const std::vector<ValueType> inputs{{DType::f32, {1, tokens, 128}}, {DType::f32, {128, 384}}};
    const Attributes product = ops::MatmulAttributes{};
    const std::vector<ValueType> outputs = ops::kMatmul.infer(product, inputs);
    const KernelRequest request{.op = &ops::kMatmul, .attributes = &product, .inputs = inputs, .outputs = outputs, .threads = 2};
    const KernelChoice choice = catalogue.choose(request);
    EXPECT_EQ(choice.implementation, "tiled");
    EXPECT_EQ(choice.primitives, 0);
    EXPECT_EQ(choice.scratch, Bytes{128 * 384 * 4 * (tokens > 16 ? 2 : 1)}) << "a block of B for each thread";
  }
  const std::vector<ValueType> inputs{
      {DType::f32, {1, 300, 16}}, {DType::f32, {4096, 16}}, {DType::i32, {1, 300}}, {DType::f32, Shape{1}}};
  const Attributes loss = ops::LossAttributes{};
  const std::vector<ValueType> outputs = ops::kLinearCrossEntropyBackward.infer(loss, inputs);
  const KernelRequest request{.op = &ops::kLinearCrossEntropyBackward, .attributes = &loss, .inputs = inputs, .outputs = outputs};
  EXPECT_TRUE(catalogue.choose(request).implementation.ends_with(" tiled")) << catalogue.choose(request).implementation;
}

}  // namespace
}  // namespace plimsoll
