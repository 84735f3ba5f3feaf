// Every op's cases: values against the fp64 reference, no stray writes, the same bits in place, on one and two threads and for
// any number of chunks. Gradients are in gradient_test.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <ostream>

#include "base/ceil_div.h"
#include "base/error.h"
#include "ops/attention/attention.h"
#include "ops/cases/bound_case.h"
#include "ops/cases/smallest.h"
#include "ops/cuda_kernel.h"
#include "ops/families.h"
#include "ops/matmul/matmul.h"

namespace plimsoll::test {
namespace {

// The largest difference in units of the tolerance. NaN and infinity count as infinite.
double excess(const Numbers& actual, const Numbers& expected, double allowed) {
  double scale = 0.01, worst = 0;
  for (const double x : expected) scale = std::max(scale, std::abs(x));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(actual[i] - expected[i]);
    worst = std::max(worst, std::isfinite(difference) ? difference : HUGE_VAL);
  }
  return worst == 0 ? 0 : worst / (scale * allowed);
}

// Attention and the loss multiply products again. A product alone rounds nothing on the way, unless it adds a bias: cuBLASLt
// takes the bias in the type of the result, and rounds some products before it adds.
bool rounds_on_the_way(const OpDef& op, const OpCase& a_case) {
  return op.costly && (&op != &ops::kMatmul || a_case.inputs.size() > 2);
}

TEST(GuardedBytes, NoticesOneByteOutside) {
  for (const std::ptrdiff_t at : {-1, 7, 8, 63, 64}) {
    GuardedBytes bytes(7, std::byte{0xFF});
    std::fill_n(bytes.data(), bytes.size(), std::byte{0});
    EXPECT_TRUE(bytes.intact());
    bytes.data()[at] = std::byte{0};
    EXPECT_FALSE(bytes.intact()) << at;
  }
}

struct OpOn {
  const OpDef* op;
  const Backend* backend;
};
void PrintTo(const OpOn& on, std::ostream* out) { *out << on.op->name; }

class OpCasesTest : public testing::TestWithParam<OpOn> {
 protected:
  const OpDef& op() const { return *GetParam().op; }
  const Backend& backend() const { return *GetParam().backend; }

  // Options for the backend that is tested.
  RunOptions on(RunOptions options = {}) const {
    options.backend = &backend();
    return options;
  }

  template <class Body>
  void for_each_case(Body body) const {
    const OpCases* cases = find_cases(op());
    ASSERT_NE(cases, nullptr);
    run_each(cases->cases, body);
  }

  // For what does not depend on the numbers: over the emulation, which is slow, the smallest case of each kernel.
  template <class Body>
  void for_each_kernel(Body body) const {
    const OpCases* cases = find_cases(op());
    ASSERT_NE(cases, nullptr);
    const bool emulated = &backend() != &kCpu && backend().elsewhere == nullptr;
    run_each(emulated ? smallest_cases(cases->cases) : cases->cases, body);
  }

  std::vector<std::vector<std::byte>> bits(const OpCase& a_case, const std::vector<Numbers>& inputs,
                                           const RunOptions& options = {}) const {
    BoundCase bound(op(), a_case, inputs, on(options));
    bound.run();
    EXPECT_EQ(bound.faults(), "");
    return bound.output_bytes();
  }

 private:
  template <class Body>
  void run_each(const std::vector<OpCase>& cases, Body body) const {
    bool run = false;
    for (const OpCase& a_case : cases) {
      if (a_case.benchmark) continue;
      SCOPED_TRACE(describe(op(), a_case));
      const std::vector<Numbers> inputs = fill_inputs(a_case, 1);
      if (!takes(a_case, inputs)) continue;
      body(a_case, inputs);
      run = true;
    }
    EXPECT_TRUE(run || cases.empty());
  }

  // False for a case that GpuNeeds::require refuses.
  bool takes(const OpCase& a_case, const std::vector<Numbers>& inputs) const {
    if (&backend() == &kCpu) return true;
    try {
      BoundCase(op(), a_case, inputs, on());
      return true;
    } catch (const Error& error) {
      if (error.code != "E-CUDA-OP") throw;
      return false;
    }
  }
};

TEST_P(OpCasesTest, AgreesWithTheReference) {
  for_each_case([&](const OpCase& a_case, const std::vector<Numbers>& inputs) {
    BoundCase bound(op(), a_case, inputs, on());
    bound.run();
    const std::vector<Numbers> actual = bound.outputs(), expected = reference_outputs(*find_cases(op()), a_case, inputs);
    const std::vector<ValueType> types = output_types(op(), a_case);
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) {
      ASSERT_EQ(actual[i].size(), expected[i].size()) << "output " << i;
      // The farther of two neighbours is up to twice as far as the nearest one may be.
      const double most = a_case.rounds_at_random && types[i].dtype != DType::f32 ? 2 : 1;
      double within = a_case.rounds_within ? tolerance(*a_case.rounds_within) : 0;
      within = std::max(within, tolerance(types[i].dtype));
      if (a_case.sums_squares && types[i].dtype == DType::f64) {
        within = std::max(within, sum_error(a_case.inputs[0].type.shape.elements()));
      }
      // The errors of intermediate values and of the result add up.
      const DType operands = a_case.inputs[0].type.dtype;
      if (backend().rounds_between && rounds_on_the_way(op(), a_case) && operands != DType::f32) within += tolerance(operands);
      EXPECT_LE(excess(actual[i], expected[i], within), most) << "output " << i;
    }
  });
}

TEST_P(OpCasesTest, WritesItsOutputsWholeAndNothingElse) {
  for_each_kernel([&](const OpCase& a_case, const std::vector<Numbers>& inputs) {
    EXPECT_TRUE(bits(a_case, inputs, {.poison = std::byte{0xFF}}) == bits(a_case, inputs, {.poison = std::byte{0x3B}}));
  });
}

TEST_P(OpCasesTest, GivesTheSameBitsInPlace) {
  for_each_kernel([&](const OpCase& a_case, const std::vector<Numbers>& inputs) {
    const auto apart = bits(a_case, inputs, {.threads = 1});
    const std::vector<ValueType> from = input_types(a_case), to = output_types(op(), a_case);
    for (const Alias& alias : aliases_of(op(), a_case.attributes)) {
      if (in_place(alias.kind) || size_of(from[alias.input].dtype) != size_of(to[alias.output].dtype)) continue;
      EXPECT_TRUE(bits(a_case, inputs, {.threads = 1, .in_place = alias}) == apart)
          << "output " << alias.output << " over input " << alias.input;
    }
  });
}

TEST_P(OpCasesTest, GivesTheSameBitsOnOneAndTwoThreads) {
  if (&backend() != &kCpu) return;
  for_each_case([&](const OpCase& a_case, const std::vector<Numbers>& inputs) {
    if (!BoundCase(op(), a_case, inputs, on()).choice().implementation.starts_with("plimsoll")) return;
    EXPECT_TRUE(bits(a_case, inputs, {.threads = 1}) == bits(a_case, inputs, {.threads = 2}));
  });
}

// Threads of a block find each other's numbers in any order of execution. On a device, runs are compared.
TEST_P(OpCasesTest, GivesTheSameBitsInAnyOrderOfGpuThreads) {
  if (&backend() == &kCpu) return;
  for_each_kernel([&](const OpCase& a_case, const std::vector<Numbers>& inputs) {
    EXPECT_TRUE(bits(a_case, inputs) == bits(a_case, inputs, {.reversed = true}));
  });
}

// The op runs on ranges, as for an operand that is partly on another tier.
TEST_P(OpCasesTest, GivesTheSameBitsRangeByRange) {
  if (op().ranges == nullptr || !backend().takes_ranges(op())) return;
  int ranged = 0;
  for_each_case([&](const OpCase& a_case, const std::vector<Numbers>& inputs) {
    const std::vector<ValueType> types = input_types(a_case);
    const RangeRule rule = op().ranges(a_case.attributes, types);
    if (rule.inputs.empty()) return;  // a gradient that has no accumulator
    for (const std::size_t input : rule.inputs) {
      ASSERT_LT(input, types.size());
      EXPECT_EQ(types[input].shape, types[rule.inputs.front()].shape);
      EXPECT_TRUE(is_float(types[input].dtype) || types[input].dtype == DType::u8);  // blocks
    }
    const std::int64_t all = types[rule.inputs.front()].shape.elements();
    const auto whole = bits(a_case, inputs);
    for (const std::int64_t elements : {rule.step, 3 * rule.step, round_up(all / 2 + 1, rule.step)}) {
      BoundCase bound(op(), a_case, inputs, on({.in_ranges = true}));
      bound.run_in_ranges(elements);
      EXPECT_EQ(bound.faults(), "");
      EXPECT_TRUE(bound.output_bytes() == whole) << "ranges of " << elements;
      ranged += elements < all;
    }
  });
  EXPECT_GT(ranged, 0) << "no case is larger than a range";
}

TEST_P(OpCasesTest, GivesTheSameBitsInAnyNumberOfChunks) {
  if (!op().chunked) return;
  for_each_kernel([&](OpCase a_case, const std::vector<Numbers>& inputs) {
    const auto as_stated = bits(a_case, inputs, {.threads = 1});
    for (const int chunks : {1, 3, 7, 1000}) {
      if (&backend() != &kCpu && chunks > 3) continue;  // a GPU's kernels know of none
      a_case.chunks = chunks;
      EXPECT_TRUE(bits(a_case, inputs, {.threads = 1}) == as_stated) << chunks << " chunks";
    }
  });
}

std::vector<OpOn> all_on(const Backend& backend) {
  std::vector<OpOn> ops;
  for (const OpDef* op : ops::all_ops()) {
    if (&backend == &kCpu || find_cuda_kernel(*op) != nullptr) ops.push_back({op, &backend});
  }
  return ops;
}

// Ops of which warpgroups or warps multiply.
std::vector<OpOn> by_mma() {
  if (kCudaMma.bind == nullptr) return {};
  return {{&ops::kAttention, &kCudaMma}, {&ops::kAttentionBackward, &kCudaMma}};
}

const auto kNameOfOp = [](const auto& each) { return std::string(each.param.op->name); };
INSTANTIATE_TEST_SUITE_P(Ops, OpCasesTest, testing::ValuesIn(all_on(kCpu)), kNameOfOp);
INSTANTIATE_TEST_SUITE_P(CudaOps, OpCasesTest, testing::ValuesIn(all_on(kCuda)), kNameOfOp);
INSTANTIATE_TEST_SUITE_P(CudaMmaOps, OpCasesTest, testing::ValuesIn(by_mma()), kNameOfOp);

}  // namespace
}  // namespace plimsoll::test
