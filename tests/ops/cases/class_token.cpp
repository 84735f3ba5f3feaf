#include "ops/class_token/class_token.h"

#include "ops/cases/cases.h"

namespace plimsoll::test {
namespace {

std::vector<Numbers> place_tokens(const ReferenceCall& call) {
  const Shape& x = call.shape(0);
  const std::size_t width = extent(x[2]), tokens = extent(x[1]) + 1;
  Numbers y(extent(x[0]) * tokens * width);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t sample = i / (tokens * width), token = i / width % tokens, column = i % width;
    y[i] = call.values[2][token * width + column];
    y[i] += token == 0 ? call.values[1][column] : call.values[0][(sample * (tokens - 1) + token - 1) * width + column];
  }
  return {y};
}

std::vector<Numbers> class_token(const ReferenceCall& call) {
  const Shape& x = call.shape(0);
  const std::size_t width = extent(x[2]);
  Numbers y(extent(x[0]) * width);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = call.values[0][i / width * extent(x[1]) * width + i % width];
  return {y};
}

std::vector<Numbers> class_token_backward(const ReferenceCall& call) {
  const std::size_t width = extent(call.shape(0)[1]), samples = extent(call.shape(0)[0]);
  const std::size_t tokens = extent(call.attributes.as<ops::ClassTokenBackwardAttributes>().tokens);
  Numbers y(samples * tokens * width);
  for (std::size_t i = 0; i < call.values[0].size(); ++i) y[i / width * tokens * width + i % width] = call.values[0][i];
  return {y};
}

std::vector<Numbers> other_tokens(const ReferenceCall& call) {
  const Shape& x = call.shape(0);
  const std::size_t width = extent(x[2]), tokens = extent(x[1]);
  Numbers y;
  for (std::size_t i = 0; i < call.values[0].size(); ++i) {
    if (i / width % tokens != 0) y.push_back(call.values[0][i]);
  }
  return {y};
}

}  // namespace

std::vector<OpCases> class_token_cases() {
  std::vector<OpCase> places, firsts, spreads, others;
  for (const Shape& x : std::vector<Shape>{{1, 1, 1}, {3, 4, 5}, {2, 16, 48}, {5, 9, 17}}) {
    places.push_back({ops::NoAttributes{}, {wanted(x), wanted({1, 1, x[2]}), wanted({1, x[1] + 1, x[2]})}});
    firsts.push_back({ops::NoAttributes{}, {wanted(x)}});
    spreads.push_back({ops::ClassTokenBackwardAttributes{x[1]}, {f32({x[0], x[2]})}});
    others.push_back({ops::NoAttributes{}, {f32({x[0], x[1] + 1, x[2]})}});
  }
  places.push_back(timed({ops::NoAttributes{}, {f32({16, 196, 768}), f32({1, 1, 768}), f32({1, 197, 768})}}));
  return {{&ops::kPlaceTokens, place_tokens, places, {}},
          {&ops::kClassToken, class_token, firsts, {}},
          {&ops::kClassTokenBackward, class_token_backward, spreads, {}},
          {&ops::kOtherTokens, other_tokens, others, {}}};
}

}  // namespace plimsoll::test
