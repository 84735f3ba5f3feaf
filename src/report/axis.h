// An axis of a figure: its range, its round ticks and their words.
#pragma once

#include <string>
#include <vector>

namespace plimsoll {

enum class NumberKind { plain, count, seconds, bytes };

struct Scale {
  double low = 0, high = 1;
  bool logarithmic = false;

  // 0 at the low end, 1 at the high end; clamped.
  double share(double value) const;
};

// A scale from `low` to `high`, with a margin on a linear one where it is not held.
Scale scale_of(double low, double high, bool from_zero, bool may_be_logarithmic);

struct AxisTick {
  double share = 0;
  std::string label;
};
// At most `most` ticks, at round numbers.
std::vector<AxisTick> ticks_of(const Scale& scale, int most, NumberKind kind);

std::string axis_number(double value, NumberKind kind);

}  // namespace plimsoll
