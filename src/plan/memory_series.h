// The live bytes of a plan over its steps, by tier and owner, for pictures. A phase with many steps is thinned out; its greatest
// bytes stay, in total and of each owner.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "plan/plan.h"

namespace plimsoll {

inline constexpr std::size_t kMostPoints = 1000;  // of a phase
inline constexpr std::size_t kEveryStep = 0;      // each step is a point

struct OwnerSeries {
  std::string owner;
  std::vector<Bytes> bytes;  // one per point
};

struct TierSeries {
  std::string tier;
  std::vector<OwnerSeries> owners;  // those with bytes in the phase
};

// Points lie where bytes change; the first and the last step of the phase have one. The bytes of a point hold until the next one.
struct PhaseSeries {
  std::string phase;
  std::vector<int> steps;  // of the timeline, one per point
  std::vector<TierSeries> tiers;
};

// One for each phase of the plan. The plan has its analysis (Plan::forget_analysis).
std::vector<PhaseSeries> memory_series(const Plan& plan, std::size_t most = kMostPoints);

}  // namespace plimsoll
