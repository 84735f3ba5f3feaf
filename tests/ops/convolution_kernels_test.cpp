// The kernels of convolutions and pooling on every instruction set: values against the fp64 reference, and the same bits on one,
// two and three threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/cases/bound_case.h"
#include "ops/convolution/convolution.h"
#include "ops/kernel_buffers.h"
#include "ops/pooling/pooling.h"

namespace plimsoll::test {
namespace {

class WindowKernels : public testing::TestWithParam<const OpDef*> {};

TEST_P(WindowKernels, AgreeOnEveryInstructionSet) {
  const OpCases& cases = *find_cases(*GetParam());
  int tried = 0;
  for (const OpCase& a_case : cases.cases) {
    if (a_case.benchmark || a_case.inputs[0].type.dtype == DType::bf16) continue;  // a library may multiply bf16
    SCOPED_TRACE(describe(*GetParam(), a_case));
    const std::vector<Numbers> inputs = fill_inputs(a_case, 1), expected = reference_outputs(cases, a_case, inputs);
    const std::vector<ValueType> types = output_types(*GetParam(), a_case);
    cpu::on_every_target([&] {
      BoundCase two(*GetParam(), a_case, inputs, {.threads = 2});
      two.run();
      EXPECT_EQ(two.faults(), "");
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const Numbers actual = two.outputs()[i];
        double scale = 0.01, worst = 0;
        for (std::size_t k = 0; k < actual.size(); ++k) {
          scale = std::max(scale, std::abs(expected[i][k]));
          const double difference = std::abs(actual[k] - expected[i][k]);
          worst = std::max(worst, std::isfinite(difference) ? difference : HUGE_VAL);
        }
        EXPECT_LE(worst, scale * tolerance(types[i].dtype));
      }
      if (!two.choice().implementation.starts_with("plimsoll")) return;  // a product
      for (const int threads : {1, 3}) {
        BoundCase other(*GetParam(), a_case, inputs, {.threads = threads});
        other.run();
        EXPECT_TRUE(other.output_bytes() == two.output_bytes()) << threads << " threads";
      }
    });
    ++tried;
  }
  EXPECT_GE(tried, 8);
}

INSTANTIATE_TEST_SUITE_P(Ops, WindowKernels,
                         testing::Values(&ops::kConvolution, &ops::kConvolutionInput, &ops::kConvolutionWeight, &ops::kMaxPool,
                                         &ops::kMaxPoolBackward, &ops::kMeanPool),
                         [](const auto& each) { return std::string(each.param->name); });

}  // namespace
}  // namespace plimsoll::test
