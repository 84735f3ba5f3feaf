// A frontier as a self-contained SVG, light or dark as the viewer prefers: time upwards, memory to the right.
#pragma once

#include <string>

#include "cli/plan/frontier_curve.h"

namespace plimsoll {

std::string frontier_svg(const Curve& curve);

}  // namespace plimsoll
