// The measured update in parts that add up, and its ops beside their prediction and their bound.
#pragma once

#include <vector>

#include "plan/plan.h"
#include "profile/measured_updates.h"

namespace plimsoll {

// Seconds of an update, on average.
struct UpdateParts {
  double kernels = 0;  // of micro-steps
  double update = 0;   // kernels of the update section
  double copies = 0;   // starts of copies between tiers and waits for them; the kernels stand still
  double data = 0;     // waits for data
  double feed = 0;     // the rest of feeding and fetching
  double other = 0;    // the rest: cutting of windows, calls, losses

  double all() const { return kernels + update + copies + data + feed + other; }
};
UpdateParts parts_of(const MeasuredUpdates& measured);

struct OpRow {
  OpSeconds measured;    // per update
  double runs = 0;       // likewise
  double predicted = 0;  // seconds per update
};
// Slowest first. The plan has its analysis.
std::vector<OpRow> op_rows(const Plan& plan, const MeasuredUpdates& measured);

}  // namespace plimsoll
