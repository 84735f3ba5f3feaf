#include "ops/reduce/reduce.h"

#include <cmath>

#include "ops/cases/cases.h"

namespace plimsoll::test {
namespace {

std::vector<Numbers> reduce(const ReferenceCall& call) {
  const std::size_t width = extent(call.shape(0).last());
  const double factor = call.attributes.as<ops::ReduceAttributes>().mean ? 1 / static_cast<double>(width) : 1;
  Numbers out(call.values[0].size() / width);
  for (std::size_t i = 0; i < call.values[0].size(); ++i) out[i / width] += call.values[0][i];
  for (double& x : out) x *= factor;
  return {out};
}

std::vector<Numbers> broadcast_last(const ReferenceCall& call) {
  const auto& attributes = call.attributes.as<ops::BroadcastLastAttributes>();
  Numbers out;
  for (const double x : call.values[0]) out.insert(out.end(), extent(attributes.extent), x * attributes.factor);
  return {out};
}

std::vector<Numbers> sum_rows(const ReferenceCall& call) {
  const std::size_t width = extent(call.shape(0).last());
  Numbers out = call.attributes.as<ops::AccumulateAttributes>().accumulate ? call.values[1] : Numbers(width);
  for (std::size_t i = 0; i < call.values[0].size(); ++i) out[i % width] += call.values[0][i];
  return {out};
}

std::vector<Numbers> sum_losses(const ReferenceCall& call) {
  double total = call.values[1][0];
  for (const double loss : call.values[0]) total += loss;
  return {{total}};
}

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> list{{1}, {7, 1}, {65, 7}, {2, 7, 65}, {3, 43, 200}};
  return list;
}
const Shape kLarge{4096, 768};
// Shapes with more elements than a GPU's warp, block or group of blocks takes at once.
const std::vector<Shape>& long_shapes() {
  static const std::vector<Shape> list{{3, 2100}, {2, 2051}, {40, 3}, {1500, 8}};
  return list;
}

std::vector<OpCase> reductions() {
  std::vector<OpCase> cases;
  for (const bool mean : {false, true}) {
    for (const Shape& shape : shapes()) cases.push_back({ops::ReduceAttributes{mean}, {wanted(shape)}});
    for (const Shape& shape : long_shapes()) cases.push_back({ops::ReduceAttributes{mean}, {f32(shape)}});
  }
  cases.push_back(timed({ops::ReduceAttributes{}, {f32(kLarge)}}));
  return cases;
}

std::vector<OpCase> broadcasts() {
  std::vector<OpCase> cases;
  for (const Shape& shape : shapes()) {
    cases.push_back({ops::BroadcastLastAttributes{65, 1}, {wanted(shape)}});
    cases.push_back({ops::BroadcastLastAttributes{7, 0.25}, {f32(shape)}});
    cases.push_back({ops::BroadcastLastAttributes{8, 0.25}, {f32(shape)}});
  }
  cases.push_back({ops::BroadcastLastAttributes{1, 1}, {wanted(Shape{})}});
  cases.push_back(timed({ops::BroadcastLastAttributes{768, 0.5}, {f32({4096})}}));
  return cases;
}

std::vector<OpCase> sums_of_rows() {
  std::vector<OpCase> cases;
  for (const Shape& shape : shapes()) {
    const OpCase adding{ops::AccumulateAttributes{true}, {f32(shape), f32({shape.last()})}};
    cases.insert(cases.end(), {OpCase{ops::AccumulateAttributes{false}, {f32(shape)}}, adding, in_window(adding)});
  }
  for (const Shape& shape : long_shapes()) {
    cases.push_back({ops::AccumulateAttributes{true}, {f32(shape), f32({shape.last()})}});
  }
  cases.push_back({ops::AccumulateAttributes{true}, {f32({17000, 1}), f32({1})}});
  cases.push_back(timed({ops::AccumulateAttributes{true}, {f32(kLarge), f32({kLarge.last()})}}));
  return cases;
}

std::vector<OpCase> totals() {
  std::vector<OpCase> cases;
  for (const Shape& shape : shapes()) {
    const OpCase adding{ops::NoAttributes{}, {f32(shape, {0, 11}), f64({1}, {0, 100})}};
    cases.insert(cases.end(), {adding, in_window(adding)});
  }
  for (const Shape& shape : long_shapes()) cases.push_back({ops::NoAttributes{}, {f32(shape, {0, 11}), f64({1}, {0, 100})}});
  return cases;
}

std::vector<Numbers> count_small(const ReferenceCall& call) {
  Numbers counts = call.values[1];
  for (const double x : call.values[0]) {
    ++counts[ops::kElements];
    counts[ops::kZeros] += x == 0 ? 1 : 0;
    counts[ops::kSubnormals] += x != 0 && std::abs(x) < 0x1p-14 ? 1 : 0;
  }
  return {counts};
}

// A third of the numbers are zeros, or subnormal, the others from a grid that fp16 holds.
std::vector<OpCase> counts() {
  std::vector<OpCase> cases;
  for (const Shape& shape : {Shape{1}, Shape{65, 33}, Shape{40007}}) {
    OpCase adding{ops::NoAttributes{}, {f32(shape), f64({ops::kCounts}, {0, 100})}};
    adding.derive = [](std::vector<Numbers>& values) {
      for (std::size_t i = 0; i < values[0].size(); ++i) {
        const double grid = std::round(8 * values[0][i]) / 8;
        values[0][i] = i % 3 == 0 ? grid * 0x1p-16 : i % 3 == 1 ? 0.5 + std::abs(grid) : -0x1p-14;
      }
      for (double& count : values[1]) count = std::round(count);
    };
    for (const OpCase& each : {adding, in_window(adding)}) cases.push_back(with_inputs_of(DType::f16, {0}, each));
  }
  return cases;
}

std::vector<OpCase> in_both_widths(std::vector<OpCase> cases) {
  const std::vector<OpCase> wide = cases;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const OpCase& each : wide) cases.push_back(with_inputs_of(dtype, {0}, each));
  }
  return cases;
}

}  // namespace

std::vector<OpCases> reduce_cases() {
  return {{&ops::kReduce, reduce, reductions(), {}},
          {&ops::kBroadcastLast, broadcast_last, broadcasts(), {}},
          {&ops::kSumRows, sum_rows, in_both_widths(sums_of_rows()), {}},
          {&ops::kSumLosses, sum_losses, totals(), {}},
          {&ops::kCountSmall, count_small, counts(), {}}};
}

}  // namespace plimsoll::test
