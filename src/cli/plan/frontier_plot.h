// A frontier as a plot in plain characters, at most 72 columns and 16 rows: time upwards, memory to the right.
#pragma once

#include <string>

#include "cli/plan/frontier_curve.h"

namespace plimsoll {

// `colour`: bold marks, for a terminal.
std::string frontier_plot(const Curve& curve, bool colour);

}  // namespace plimsoll
