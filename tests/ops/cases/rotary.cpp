#include "ops/rotary/rotary.h"

#include <cmath>

#include "ops/cases/cases.h"
#include "ops/rotary/frequencies.h"

namespace plimsoll::test {
namespace {

using ops::RotaryAttributes;
using ops::RotaryScaling;

// Frequencies have a test of their own. The op defines angles as products in fp32, and cosines as rounded to the type of x.
std::vector<Numbers> rotary(const ReferenceCall& call) {
  const auto& a = call.attributes.as<RotaryAttributes>();
  const ops::RotaryTable table = ops::rotary_table(a);
  const DType dtype = call.inputs[0].dtype;
  const std::size_t width = extent(call.shape(0)[2]), tokens = extent(call.shape(0)[1]), size = extent(a.head_size),
                    pairs = extent(a.rotated / 2);
  Numbers out = call.values[0];
  for (std::size_t row = 0; row < out.size() / width; ++row) {
    const double position = a.positions ? call.values[1][row] : static_cast<double>(row % tokens);
    for (std::size_t i = 0; i < pairs; ++i) {
      const float angle = static_cast<float>(position) * table.inverse_frequencies[i];
      Numbers turn{std::cos(static_cast<double>(angle)), std::sin(static_cast<double>(angle))};
      for (double& each : turn) each *= table.attention_factor;
      turn = round_to(turn, dtype);
      const double c = turn[0], s = a.inverse ? -turn[1] : turn[1];
      for (std::size_t head = 0; head < width / size; ++head) {
        const std::size_t first = row * width + head * size + (a.interleaved ? 2 * i : i);
        const std::size_t second = first + (a.interleaved ? 1 : pairs);
        const double x = call.values[0][first], y = call.values[0][second];
        out[first] = x * c - y * s;
        out[second] = y * c + x * s;
      }
    }
  }
  return {out};
}

struct Extents {
  std::int64_t batch, tokens, heads, head_size, rotated;
  Shape x() const { return {batch, tokens, heads * head_size}; }
};

OpCase one(const Extents& e, bool interleaved, bool positions, bool inverse) {
  RotaryAttributes attributes{e.head_size, e.rotated, interleaved};
  attributes.positions = positions;
  attributes.inverse = inverse;
  OpCase result{attributes, {wanted(e.x())}};
  if (positions) result.inputs.push_back(i32({e.batch, e.tokens}, 0, 3000));
  return result;
}

// Positions of long contexts, for operands of any type: an angle in 16 bits would be wrong by whole turns.
OpCase far(DType dtype, bool interleaved) {
  OpCase result = one({2, 40, 2, 64, 64}, interleaved, true, false);
  result.inputs[1].fill = {100'000, 1'050'000};
  return with_inputs_of(dtype, {0}, result);
}

OpCase scaled(RotaryAttributes attributes) {
  attributes.head_size = attributes.rotated = 16;
  attributes.positions = true;
  return {attributes, {wanted({2, 3, 32}), i32({2, 3}, 0, 5000)}};
}

}  // namespace

std::vector<OpCases> rotary_cases() {
  std::vector<OpCase> cases;
  // Partly rotated heads, more pairs than one table holds, rows of several tasks, and heads of several launches on a GPU.
  const std::vector<Extents> list{{1, 1, 1, 2, 2},       {2, 7, 3, 16, 16},  {1, 5, 2, 20, 6},    {2, 3, 1, 300, 290},
                                  {1, 9, 1, 1300, 1300}, {2, 33, 9, 64, 64}, {1, 40, 5, 128, 32}, {2, 3, 5, 304, 264}};
  for (const Extents& e : list) {
    for (const bool interleaved : {false, true}) {
      for (const bool positions : {false, true}) {
        cases.push_back(one(e, interleaved, positions, false));
        for (const DType dtype : {DType::bf16, DType::f16}) {
          cases.push_back(with_inputs_of(dtype, {0}, one(e, interleaved, positions, positions)));
        }
      }
      cases.push_back(one(e, interleaved, false, true));
    }
  }
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const bool interleaved : {false, true}) cases.push_back(far(dtype, interleaved));
  }
  cases.push_back(scaled({.scaling = RotaryScaling::linear, .factor = 4}));
  cases.push_back(scaled({.scaling = RotaryScaling::dynamic, .factor = 2, .most = 100, .length = 300}));
  cases.push_back(scaled({.scaling = RotaryScaling::by_bands, .factor = 8, .original = 2048}));
  cases.push_back(scaled({.scaling = RotaryScaling::yarn, .factor = 4, .original = 1024}));
  cases.push_back(scaled({.scaling = RotaryScaling::longrope,
                          .original = 1024,
                          .most = 4096,
                          .short_factor = std::vector<double>(8, 1.5),
                          .long_factor = std::vector<double>(8, 3),
                          .length = 2000}));
  for (const DType dtype : {DType::f32, DType::bf16}) {
    cases.push_back(with_inputs_of(dtype, {0}, timed(one({8, 512, 16, 64, 64}, false, false, false))));
    cases.push_back(with_inputs_of(dtype, {0}, timed(one({1, 2048, 16, 64, 64}, false, false, false))));
    cases.push_back(with_inputs_of(dtype, {0}, timed(one({1, 2048, 16, 64, 64}, true, true, false))));
  }
  return {{&ops::kRotary, rotary, cases, {}}};
}

}  // namespace plimsoll::test
