#include "ops/statistic/statistic.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "ops/cases/cases.h"
#include "ops/update/update.h"

namespace plimsoll::test {
namespace {

std::vector<Numbers> subtract_mean(const ReferenceCall& call) {
  Numbers y = call.values[0];
  for (std::size_t i = 0; i < y.size(); ++i) y[i] -= call.values[1][i % call.values[1].size()];
  return {y};
}

std::vector<Numbers> deviations(const ReferenceCall& call) {
  const Numbers &x = call.values[0], &mean = call.values[1];
  Numbers sums = call.values[2];
  for (std::size_t i = 0; i < x.size(); ++i) sums[i % mean.size()] += x[i] - mean[i % mean.size()];
  sums.back() += static_cast<double>(x.size() / mean.size());
  return {sums};
}

std::vector<Numbers> moving_mean(const ReferenceCall& call) {
  Numbers mean = call.values[0];
  if (call.values.size() > 2 && !std::isfinite(call.values[2][0])) return {mean};
  for (std::size_t i = 0; i < mean.size(); ++i) {
    const double step = call.attributes.as<ops::MovingMeanAttributes>().blend * call.values[1][i] / call.values[1].back();
    if (std::isfinite(step)) mean[i] += step;
  }
  return {mean};
}

std::vector<Numbers> largest_magnitude(const ReferenceCall& call) {
  Numbers most = call.values[1];
  for (std::size_t i = 0; i < call.values[0].size(); ++i) {
    double& one = most[i % most.size()];
    one = std::max(one, std::abs(call.values[0][i]));
  }
  return {most};
}

std::vector<Numbers> average_statistic(const ReferenceCall& call) {
  Numbers average = call.values[0];
  if (call.values.size() > 3 && !std::isfinite(call.values[3][0])) return {average};
  if (call.values[2][ops::kUpdate] == 1) return {call.values[1]};
  const double blend = call.attributes.as<ops::AverageAttributes>().blend;
  for (std::size_t i = 0; i < average.size(); ++i) average[i] += blend * (call.values[1][i] - average[i]);
  return {average};
}

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> list{{1}, {7, 1}, {65, 7}, {2, 7, 65}, {3, 43, 1030}};
  return list;
}
const Shape kLarge{4096, 768};

OpCase mean_case(std::int64_t n, bool guarded, std::optional<double> coefficient = {}) {
  OpCase result{ops::MovingMeanAttributes{0.25}, {f32({n}), f64({n + 1}, {1, 9})}};
  if (guarded) result.inputs.push_back(f32({1}, {0.1, 1}));
  if (coefficient) result.derive = [=](std::vector<Numbers>& values) { values[2] = {*coefficient}; };
  return result;
}

OpCase average_case(const Shape& shape, double update, std::optional<double> coefficient = {}) {
  OpCase result{ops::AverageAttributes{0.25}, {f32(shape), f32(shape), f64({ops::kUpdateScalars})}};
  if (coefficient) result.inputs.push_back(f32({1}));
  result.derive = [=](std::vector<Numbers>& values) {
    values[2][ops::kUpdate] = update;
    if (coefficient) values[3] = {*coefficient};
  };
  return result;
}

std::vector<OpCase> in_all_widths(std::vector<OpCase> cases) {
  const std::vector<OpCase> wide = cases;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const OpCase& each : wide) cases.push_back(with_inputs_of(dtype, {0}, each));
  }
  return cases;
}

}  // namespace

std::vector<OpCases> statistic_cases() {
  std::vector<OpCase> subtractions, sums, magnitudes;
  for (const Shape& shape : shapes()) {
    const std::int64_t n = shape.last();
    subtractions.push_back({ops::NoAttributes{}, {wanted(shape), f32({n})}});
    const OpCase adding{ops::MovingMeanAttributes{}, {f32(shape), f32({n}), f64({n + 1}, {1, 9})}};
    sums.insert(sums.end(), {adding, in_window(adding)});
    magnitudes.push_back({ops::NoAttributes{}, {f32(shape), f32({n}, {0, 1})}});
  }
  const std::int64_t n = kLarge.last();
  subtractions.push_back(timed({ops::NoAttributes{}, {f32(kLarge), f32({n})}}));
  sums.push_back(timed({ops::MovingMeanAttributes{}, {f32(kLarge), f32({n}), f64({n + 1})}}));
  magnitudes.push_back(timed({ops::NoAttributes{}, {f32(kLarge), f32({n}, {0, 1})}}));
  OpCase without_sum = mean_case(9, false);
  without_sum.derive = [](std::vector<Numbers>& values) { values[1][3] = HUGE_VAL, values[1][4] = NAN; };
  return {{&ops::kSubtractMean, subtract_mean, subtractions, {}},
          {&ops::kDeviations, deviations, in_all_widths(sums), {}},
          {&ops::kMovingMean,
           moving_mean,
           {mean_case(1, false), mean_case(768, true), mean_case(9, true, HUGE_VAL), mean_case(9, true, NAN), without_sum},
           {}},
          {&ops::kLargestMagnitude, largest_magnitude, in_all_widths(magnitudes), {}},
          {&ops::kAverageStatistic,
           average_statistic,
           {average_case({1}, 1), average_case({768}, 2), average_case({9}, 7, 0.5), average_case({9}, 1, 0.5),
            average_case({9}, 1, HUGE_VAL), average_case({9}, 3, NAN)},
           {}}};
}

}  // namespace plimsoll::test
