// Optimizers on a GPU, over the emulation, compared with those of the CPU: every width of the operands, with the same noise.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "device/cpu/instruction_set.h"
#include "ops/attributes.h"
#include "ops/cases/bound_case.h"
#include "ops/update/update.h"

namespace plimsoll::test {
namespace {

constexpr NoiseKey kKey{0x243F6A88, 0x85A308D3};
const Shape kRanges{2, 3, 8209};  // more than a range, and no whole number of blocks
const Shape kShort{3, 37};        // so short that a single element shows in the sums

struct Widths {
  DType parameter, gradient, state;
};

template <class A>
OpCase case_of(A a, const Widths& widths, const Shape& shape) {
  a.coded = widths.state == DType::u8;
  OpCase result{a, {{{widths.parameter, shape}, {}, false}}};
  const std::int64_t blocks = (shape.elements() + ops::kCodedBlock - 1) / ops::kCodedBlock;
  for (std::size_t s = 0; s < a.states(); ++s) {
    const Fill fill = a.coded ? Fill{0, 256} : Fill{0.01, 1};
    result.inputs.push_back({{widths.state, shape}, fill, false});
    if (a.coded) result.inputs.push_back(f32({blocks}, {0.1, 1}));
  }
  if (a.average_blend > 0) result.inputs.push_back(f32(shape));
  result.inputs.push_back({{widths.gradient, shape}, {}, false});
  result.inputs.push_back(f64({ops::kUpdateScalars}));
  result.inputs.push_back(f32({1}, {0.5, 1}));
  result.derive = [at = a.operands().scalars()](std::vector<Numbers>& values) {
    values[at] = {1e-2, 0.271, 0.142625, 3, 0.9, 1};
  };
  return result;
}

// Numbers agree except for some last bits, codes up to one step, and sums up to the error bounds of both.
void expect_close(const Numbers& gpu, const Numbers& cpu, DType dtype, std::int64_t elements) {
  ASSERT_EQ(gpu.size(), cpu.size());
  std::size_t other = 0;
  for (std::size_t i = 0; i < gpu.size(); ++i) {
    const double error = dtype == DType::f64 ? 2 * sum_error(elements) : dtype == DType::bf16 ? 0x1p-7 : tolerance(DType::f32);
    const double step = dtype == DType::u8 ? 1 : error * std::abs(cpu[i]) + 1e-7;
    ASSERT_LE(std::abs(gpu[i] - cpu[i]), step) << i;
    other += gpu[i] != cpu[i];
  }
  // If products and sums are rounded separately, many last bits differ.
  if (dtype != DType::f64 && cpu::fuses_multiply_add()) EXPECT_LE(other, std::max<std::size_t>(1, gpu.size() / 1000));
}

void compare_case(const OpDef& op, const OpCase& a_case, std::int64_t elements) {
  SCOPED_TRACE(describe(op, a_case));
  const std::vector<Numbers> inputs = fill_inputs(a_case, 1);
  BoundCase cpu(op, a_case, inputs), gpu(op, a_case, inputs, {.backend = &kCuda});
  BoundCase ranged(op, a_case, inputs, {.backend = &kCuda, .in_ranges = true, .reversed = true});
  cpu.run();
  gpu.run();
  ranged.run_in_ranges(ops::kNormTile);
  EXPECT_EQ(gpu.faults(), "");
  EXPECT_TRUE(ranged.output_bytes() == gpu.output_bytes());
  const std::vector<ValueType> types = output_types(op, a_case);
  for (std::size_t i = 0; i < types.size(); ++i) {
    SCOPED_TRACE(i);
    expect_close(gpu.outputs()[i], cpu.outputs()[i], types[i].dtype, elements);
  }
}

std::vector<Widths> all_widths() {
  std::vector<Widths> all;
  for (const DType state : {DType::f32, DType::bf16, DType::u8}) {
    for (const DType parameter : {DType::f32, DType::bf16}) {
      for (const DType gradient : {DType::f32, DType::bf16}) all.push_back({parameter, gradient, state});
    }
  }
  return all;
}

template <class A>
void compare(const OpDef& op, A a, const Shape& shape) {
  a.rounding = kKey;
  for (const Widths& widths : all_widths()) {
    for (const double blend : {0.0, 0.25}) {
      a.average_blend = blend;
      compare_case(op, case_of(a, widths, shape), shape.elements());
    }
  }
}

template <class A>
void compare(const OpDef& op, const A& a) {
  for (const Shape& shape : {kRanges, kShort}) compare(op, a, shape);
}

TEST(CudaUpdate, AdamWIsTheCpus) { compare(ops::kAdamW, ops::AdamWAttributes{.beta2 = 0.95, .weight_decay = 0.1}); }
TEST(CudaUpdate, LionIsTheCpus) { compare(ops::kLion, ops::LionAttributes{.weight_decay = 0.1, .clip_value = 0.3}); }
TEST(CudaUpdate, SgdIsTheCpus) {
  compare(ops::kSgd, ops::SgdAttributes{.momentum = true, .weight_decay = 0.1, .nesterov = true});
}

// Nothing changes, and no change is reported.
TEST(CudaUpdate, SkipsWhatHasNoFiniteCoefficient) {
  for (const double coefficient : {std::nan(""), HUGE_VAL}) {
    OpCase a_case = case_of(ops::AdamWAttributes{.rounding = kKey}, {DType::bf16, DType::f32, DType::u8}, kRanges);
    a_case.derive = [coefficient](std::vector<Numbers>& values) {
      values[6] = {1e-2, 0.271, 0.142625, 3, 0.9, 1};
      values[7] = {coefficient};
    };
    const std::vector<Numbers> inputs = fill_inputs(a_case, 1);
    BoundCase gpu(ops::kAdamW, a_case, inputs, {.backend = &kCuda});
    gpu.run();
    const std::vector<Numbers> outputs = gpu.outputs();
    for (std::size_t i = 0; i < 5; ++i) EXPECT_TRUE(outputs[i] == inputs[i]) << i;
    EXPECT_EQ(outputs[5], Numbers(2));
  }
}

}  // namespace
}  // namespace plimsoll::test
