// Synthetic layout problems for tests: random lives, perfect packings cut from a rectangle, lives in the shape of a training
// step.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "plan/layout/problem.h"

namespace plimsoll::layout {

// Integers in [low, high], the same on every platform.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  std::int64_t roll(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(high - low + 1));
  }

 private:
  std::mt19937_64 engine_;
};

inline Problem random_problem(Dice& dice, std::int64_t count, std::int64_t span, std::int64_t largest) {
  Problem problem;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t lower = dice.roll(0, span - 1);
    problem.buffers.push_back({lower, dice.roll(lower, span), dice.roll(0, largest)});
  }
  return problem;
}

// Random lives, and one filler for each moment that raises its load to the maximum. A layout at the load leaves no byte unused;
// many of these problems have none.
inline Problem filled_problem(Dice& dice, std::int64_t count, std::int64_t span, std::int64_t largest) {
  Problem problem;
  std::vector<std::int64_t> live(static_cast<std::size_t>(span), 0);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t lower = dice.roll(0, span - 1);
    problem.buffers.push_back({lower, dice.roll(lower + 1, span), dice.roll(1, largest)});
    for (std::int64_t t = lower; t < problem.buffers.back().upper; ++t)
      live[static_cast<std::size_t>(t)] += problem.buffers.back().size;
  }
  const std::int64_t most = *std::max_element(live.begin(), live.end());
  for (std::int64_t t = 0; t < span; ++t) {
    const std::int64_t rest = most - live[static_cast<std::size_t>(t)];
    if (rest > 0) problem.buffers.push_back({t, t + 1, rest});
  }
  return problem;
}

// `count` buffers that fill a rectangle of `span` moments and `height` units without a gap.
inline Problem perfect_packing(Dice& dice, std::size_t count, std::int64_t span, std::int64_t height, std::int64_t unit) {
  struct Rectangle {
    std::int64_t left, right, bottom, top;
  };
  std::vector<Rectangle> cuts{{0, span, 0, height}};
  while (cuts.size() < count) {
    Rectangle& cut = cuts[static_cast<std::size_t>(dice.roll(0, static_cast<std::int64_t>(cuts.size()) - 1))];
    Rectangle rest = cut;
    if (dice.roll(0, 1) == 0) {
      if (cut.right - cut.left < 2) continue;
      rest.left = cut.right = dice.roll(cut.left + 1, cut.right - 1);
    } else {
      if (cut.top - cut.bottom < 2) continue;
      rest.bottom = cut.top = dice.roll(cut.bottom + 1, cut.top - 1);
    }
    cuts.push_back(rest);
  }
  Problem problem;
  for (const Rectangle& cut : cuts) problem.buffers.push_back({cut.left, cut.right, (cut.top - cut.bottom) * unit});
  return problem;
}

// A training step: activations die in the reverse order of their birth. All but the first of a layer are recomputed; some first
// ones are offloaded and fetched.
inline Problem training_trace(Dice& dice, int layers, int per_layer) {
  Problem problem;
  std::vector<std::int64_t> sizes;
  for (int i = 0; i < per_layer; ++i) sizes.push_back(dice.roll(1, 32) * 65536 + dice.roll(0, 8) * 64);
  const auto any_size = [&] { return sizes[static_cast<std::size_t>(dice.roll(0, per_layer - 1))]; };
  const std::int64_t backward = static_cast<std::int64_t>(layers) * per_layer;
  std::int64_t now = backward;
  for (int layer = layers - 1; layer >= 0; --layer) {
    const std::int64_t recomputed = now;
    now += per_layer;
    for (int i = per_layer - 1; i >= 0; --i, ++now) {
      const std::int64_t born = static_cast<std::int64_t>(layer) * per_layer + i;
      const std::int64_t size = sizes[static_cast<std::size_t>(i)];
      if (dice.roll(0, 9) < 6) problem.buffers.push_back({now, now + dice.roll(1, 4), any_size()});
      if (dice.roll(0, 1) == 0) problem.buffers.push_back({born, born + dice.roll(1, 3), any_size()});
      if (i > 0) {
        problem.buffers.push_back({born, born + dice.roll(1, 4), size});
        problem.buffers.push_back({recomputed + i, now + 1, size});
      } else if (dice.roll(0, 1) == 0 && layer + 2 < layers) {
        problem.buffers.push_back({born, born + dice.roll(2, per_layer), size});
        problem.buffers.push_back({std::max(backward, now - dice.roll(2, per_layer)), now + 1, size});
      } else {
        problem.buffers.push_back({born, now + 1, size});
      }
    }
  }
  return problem;
}

}  // namespace plimsoll::layout
