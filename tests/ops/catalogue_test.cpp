// Where the catalogue takes seconds from.
#include <gtest/gtest.h>

#include "ops/all.h"
#include "ops/cpu_catalogue.h"

namespace plimsoll {
namespace {

constexpr Roofline kRoofline{1e9, 1e9, 1e-3};

TEST(CpuCatalogue, RecordedSecondsServeEverySeed) {
  const std::vector<ValueType> inputs{{DType::f32, {2, 6, 24}}, {DType::u32, {2, 2}}};
  const Attributes one = ops::AttentionAttributes{2, 0.1, {1, 2}}, other = ops::AttentionAttributes{2, 0.1, {3, 4}},
                   more = ops::AttentionAttributes{2, 0.2, {1, 2}};
  const std::vector<ValueType> outputs = ops::kAttention.infer(one, inputs);
  const auto request = [&](const Attributes& attributes) {
    return KernelRequest{.op = &ops::kAttention, .attributes = &attributes, .inputs = inputs, .outputs = outputs, .threads = 2};
  };
  CpuCatalogue catalogue(kRoofline, {{timing_key(request(one)), 0.25}});
  for (const Attributes* attributes : {&one, &other}) {
    const KernelChoice choice = catalogue.choose(request(*attributes));
    EXPECT_EQ(choice.seconds, 0.25);
    EXPECT_EQ(choice.source, CostSource::recorded);
  }
  EXPECT_EQ(catalogue.choose(request(more)).source, CostSource::bound);
}

TEST(CpuCatalogue, ChunksTakeTheTimeOfTheWholeTimesTheirWork) {
  const std::vector<ValueType> inputs{
      {DType::f32, {1, 300, 16}}, {DType::f32, {4096, 16}}, {DType::i32, {1, 300}}, {DType::f32, Shape{1}}};
  const Attributes attributes = ops::AccumulateAttributes{};
  const std::vector<ValueType> outputs = ops::kLinearCrossEntropyBackward.infer(attributes, inputs);
  KernelRequest request{.op = &ops::kLinearCrossEntropyBackward, .attributes = &attributes, .inputs = inputs, .outputs = outputs};
  CpuCatalogue catalogue(kRoofline, {{timing_key(request), 0.5}});
  EXPECT_EQ(catalogue.choose(request).seconds, 0.5);
  request.chunks = 8;
  const KernelChoice chunked = catalogue.choose(request);
  EXPECT_GT(chunked.work, 1);
  EXPECT_EQ(chunked.seconds, 0.5 * chunked.work);
  EXPECT_EQ(chunked.source, CostSource::recorded);
}

}  // namespace
}  // namespace plimsoll
