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
  std::optional<Bytes> budget;   // budget of the plan
  std::vector<CurveMark> marks;  // floor, knee, ceiling, and the plan itself if it fits; one point may have several
};

Curve curve_of(const nlohmann::json& plan);

struct Tick {
  double value;
  std::string label;
};

// [low, high] in bytes or seconds, with about `most` ticks. The axis begins at 0 unless that would squeeze the curve.
struct Axis {
  double low, high;
  std::vector<Tick> ticks;
  bool logarithmic = false;

  bool cut() const { return !logarithmic && low > 0; }  // true: the axis does not begin at 0, and its title says so

  double share(double value) const;  // 0 at low, 1 at high
};

// The axis includes the budget if the budget is near the curve. It is logarithmic if the ceiling is several times the floor,
// since the steep part lies within a few MiB of the floor.
Axis memory_axis(const Curve& curve, int most);
Axis time_axis(const Curve& curve, int most);

}  // namespace plimsoll
