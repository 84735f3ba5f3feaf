#include "ops/cross_entropy/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/cases/cases.h"

namespace plimsoll::test {
namespace {

// Loss of one row of logits, and its derivative by them.
double row_loss(const double* x, std::size_t label, double smoothing, Numbers& d) {
  const auto classes = static_cast<double>(d.size());
  std::copy(x, x + d.size(), d.begin());
  const double top = *std::max_element(d.begin(), d.end()), mean = std::accumulate(d.begin(), d.end(), 0.0) / classes;
  double sum = 0;
  for (double& e : d) sum += e = std::exp(e - top);
  for (double& e : d) e = e / sum - smoothing / classes;
  d[label] -= 1 - smoothing;
  return top + std::log(sum) - (1 - smoothing) * x[label] - smoothing * mean;
}

struct Result {
  Numbers losses, gradient;
};

Result evaluate(const ReferenceCall& call) {
  const Numbers &logits = call.values[0], &labels = call.values[1];
  Result result{Numbers(labels.size()), Numbers(logits.size())};
  Numbers d(extent(call.shape(0).last()));
  for (std::size_t row = 0; row < labels.size(); ++row) {
    if (labels[row] < 0) continue;
    result.losses[row] = row_loss(logits.data() + row * d.size(), static_cast<std::size_t>(labels[row]),
                                  call.attributes.as<ops::CrossEntropyAttributes>().label_smoothing, d);
    for (std::size_t i = 0; i < d.size(); ++i) result.gradient[row * d.size() + i] = call.values[2][0] * d[i];
  }
  return result;
}

std::vector<Numbers> losses(const ReferenceCall& call) { return {evaluate(call).losses}; }
std::vector<Numbers> gradient(const ReferenceCall& call) { return {evaluate(call).gradient}; }

OpCase of(Shape logits, double smoothing = 0, Fill fill = {-5, 5}) {
  Shape rows = logits;
  rows.pop_back();
  const auto classes = static_cast<double>(logits.last());
  // Finite differences of large numbers have too few digits.
  const bool small = classes < 100 && fill.high < 100;
  return {ops::CrossEntropyAttributes{smoothing},
          {small ? wanted(logits, fill) : f32(logits, fill), i32(rows, 0, classes), f32({1}, {0.01, 0.1})}};
}

// One row in three.
OpCase with_ignored_rows(OpCase a_case) {
  a_case.derive = [](std::vector<Numbers>& values) {
    for (std::size_t row = 0; row < values[1].size(); row += 3) values[1][row] = row == 0 ? -1 : -100;
  };
  return a_case;
}

}  // namespace

std::vector<OpCases> cross_entropy_cases() {
  const std::vector<OpCase> cases{of({1, 2}),
                                  of({7, 10}),
                                  of({2, 3, 65}),
                                  of({5, 1}),
                                  of({5, 1}, 0.1),
                                  of({9, 1000}),
                                  of({3, 4099}, 0.1),
                                  of({2, 50000}),
                                  of({300, 17}, 0.3),
                                  of({7, 10}, 1),
                                  of({7, 10}, 0, {-1e4, 1e4}),
                                  of({7, 300}, 0.1, {-1e4, 1e4}),
                                  of({7, 300}, 0.1, {9990, 10000}),
                                  with_ignored_rows(of({7, 10})),
                                  with_ignored_rows(of({2, 4, 33}, 0.1)),
                                  with_ignored_rows(of({1, 5})),
                                  timed(of({1024, 1000}))};
  return {{&ops::kCrossEntropy, losses, cases, 2}, {&ops::kCrossEntropyBackward, gradient, cases, {}}};
}

}  // namespace plimsoll::test
