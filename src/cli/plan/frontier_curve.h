// The frontier of a plan object as a curve to draw: points by growing memory, marks on some of them, axes with round ticks.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace plimsoll {

struct CurvePoint {
  Bytes memory;
  double seconds = 0;
};

struct CurveMark {
  char letter;
  std::string name;
  std::size_t point;
};

struct Curve {
  std::vector<CurvePoint> points;
  std::string title;             // model, batch and machine
  std::optional<Bytes> budget;   // that was planned for
  std::vector<CurveMark> marks;  // floor, knee, ceiling, and the plan itself where it fits; several may lie on one point
};

Curve curve_of(const nlohmann::json& plan);

struct Tick {
  double value;
  std::string label;
};

// [low, high] in bytes or seconds, and about `most` ticks inside it. From 0 where what is drawn would not be squeezed by that.
struct Axis {
  double low, high;
  std::vector<Tick> ticks;
  bool logarithmic = false;

  bool cut() const { return !logarithmic && low > 0; }  // does not begin at 0, which has to be said

  double share(double value) const;  // 0 at low, 1 at high
};

// With the budget where that is not far off. Logarithmic where the ceiling is several times the floor: the steep part lies within
// a few MiB of the floor.
Axis memory_axis(const Curve& curve, int most);
Axis time_axis(const Curve& curve, int most);

}  // namespace plimsoll
