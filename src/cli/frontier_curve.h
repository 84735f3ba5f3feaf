// The frontier of a plan object as a curve to draw: points by growing memory, marks on some of them, axes with round ticks.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
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
  std::vector<CurveMark> marks;  // floor, knee, ceiling, and the plan itself where it fits; several may lie on one point
};

Curve curve_of(const nlohmann::json& plan);

struct Tick {
  double value;
  std::string label;
};

// [low, high] in bytes or seconds, and about `most` ticks inside it.
struct Axis {
  double low, high;
  std::vector<Tick> ticks;
  bool logarithmic = false;

  double share(double value) const;  // 0 at low, 1 at high
};

// Logarithmic where the ceiling is several times the floor: the steep part lies within a few MiB of the floor.
Axis memory_axis(const Curve& curve, int most);
Axis time_axis(const Curve& curve, int most);

}  // namespace plimsoll
