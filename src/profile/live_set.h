// The values that are live at the peak of a plan: their lines, lifetimes, the reasons to keep them, and the seconds to do
// without.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace plimsoll {

struct LiveValue {
  std::string value, line, owner;
  Bytes bytes;
  int born = 0, dies = 0;           // steps of the timeline, half-open
  std::string why;                  // the reason to keep it
  std::optional<double> recompute;  // predicted seconds to compute it again; absent for values that cannot
  std::optional<double> move;       // seconds on the nearest link, there and back; absent without a link
};

struct LivePeak {
  std::string phase;
  int step = 0;  // of the timeline
  Bytes live;
  std::vector<LiveValue> values;  // largest first; they add up to `live`
};

// The peak of the phase with the most live bytes. The plan has its analysis.
LivePeak live_at_peak(const Plan& plan, const Machine& machine);

}  // namespace plimsoll
