#include "ops/accuracy/accuracy.h"

#include <algorithm>
#include <cmath>

#include "ops/attributes.h"
#include "ops/cases/cases.h"

namespace plimsoll::test {
namespace {

// By sorting all classes of a row, equal logits in the order of their classes.
std::vector<Numbers> count_correct(const ReferenceCall& call) {
  const Numbers& logits = call.values[0];
  const std::size_t classes = extent(call.shape(0).last());
  Numbers counts = call.values[2];
  for (std::size_t row = 0; row < call.values[1].size(); ++row) {
    const double label = call.values[1][row];
    if (label < 0) continue;
    std::vector<std::size_t> order(classes);
    for (std::size_t c = 0; c < classes; ++c) order[c] = c;
    std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t c) { return logits[row * classes + c]; });
    const auto place = std::ranges::find(order, static_cast<std::size_t>(label)) - order.begin();
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += place < ops::kTopClasses[i] ? 1 : 0;
  }
  return {counts};
}

// Logits of few values, so that many are equal.
OpCase ties(std::int64_t rows, std::int64_t classes) {
  OpCase result{ops::NoAttributes{},
                {f32({rows, classes}), i32(Shape{rows}, -1, static_cast<double>(classes)), f64(Shape{2}, {0, 9})}};
  result.derive = [](std::vector<Numbers>& values) {
    for (double& x : values[0]) x = std::round(2 * x);
  };
  return result;
}

}  // namespace

std::vector<OpCases> accuracy_cases() {
  std::vector<OpCase> cases{ties(40, 7),
                            ties(40, 3),
                            in_window(ties(20, 10)),
                            {ops::NoAttributes{}, {f32({3, 1, 100}), i32({3, 1}, 0, 100), f64(Shape{2}, {0, 9})}},
                            {ops::NoAttributes{}, {f32({5, 1}), i32(Shape{5}, -1, 1), f64(Shape{2}, {0, 9})}}};
  return {{&ops::kCountCorrect, count_correct, cases, {}}};
}

}  // namespace plimsoll::test
