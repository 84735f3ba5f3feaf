#include "ops/squared_error/squared_error.h"

#include "ops/cases/cases.h"

namespace plimsoll::test {
namespace {

std::vector<Numbers> losses(const ReferenceCall& call) {
  Numbers result = call.values[0];
  for (std::size_t i = 0; i < result.size(); ++i) {
    const double error = result[i] - call.values[1][i];
    result[i] = error * error / 2;
  }
  return {result};
}

std::vector<Numbers> gradient(const ReferenceCall& call) {
  Numbers result = call.values[0];
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = (result[i] - call.values[1][i]) * call.values[2][0];
  return {result};
}

}  // namespace

std::vector<OpCases> squared_error_cases() {
  std::vector<OpCase> cases;
  for (const Shape& shape : {Shape{1}, Shape{7, 3}, Shape{2, 3, 65}, Shape{40000}}) {
    cases.push_back({ops::NoAttributes{}, {wanted(shape, {-3, 3}), f32(shape, {-3, 3}), f32({1}, {0.01, 0.1})}});
  }
  cases.push_back(timed({ops::NoAttributes{}, {f32({1 << 20}), f32({1 << 20}), f32({1})}}));
  return {{&ops::kSquaredError, losses, cases, 2}, {&ops::kSquaredErrorBackward, gradient, cases, {}}};
}

}  // namespace plimsoll::test
