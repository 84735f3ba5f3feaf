#include "ops/cases/smallest.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace plimsoll::test {
namespace {

TEST(SmallestCases, OneOfEachKernelIsLeft) {
  const auto of = [](std::int64_t rows, std::int64_t columns, DType dtype, bool overwrite = false) {
    OpCase a_case{.inputs = {{{dtype, Shape{rows, columns}}, {}, false}}, .overwrite = overwrite};
    return a_case;
  };
  const std::vector<OpCase> kept =
      smallest_cases({of(8, 64, DType::f32), of(2, 64, DType::f32), of(4, 64, DType::f32), of(8, 64, DType::bf16),
                      of(8, 128, DType::f32), of(9, 64, DType::f32, true), of(1, 1, DType::f32), of(3, 32, DType::f32),
                      of(9, 63, DType::f32), timed(of(1, 64, DType::f32))});
  const auto has = [&](Shape shape) {
    return std::ranges::any_of(kept, [&](const OpCase& each) { return each.inputs[0].type.shape == shape; });
  };
  ASSERT_EQ(kept.size(), 5u);
  EXPECT_TRUE(has({2, 64}));
  EXPECT_TRUE(has({3, 32})) << "enough elements for a block of threads";
}

// Each op keeps a case, and in all they are far fewer.
TEST(SmallestCases, EveryOpKeepsOne) {
  std::size_t all = 0, kept = 0;
  for (const OpCases& cases : all_cases()) {
    const auto tested = std::ranges::count_if(cases.cases, [](const OpCase& each) { return !each.benchmark; });
    const std::size_t left = smallest_cases(cases.cases).size();
    EXPECT_EQ(left == 0, tested == 0) << cases.op->name;
    all += static_cast<std::size_t>(tested);
    kept += left;
  }
  EXPECT_LT(kept, all);
  RecordProperty("kept", static_cast<int>(kept));
  RecordProperty("all", static_cast<int>(all));
}

}  // namespace
}  // namespace plimsoll::test
