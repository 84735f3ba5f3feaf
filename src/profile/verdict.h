// The verdict on an update: what it waits for or works at, one number that says why, and one step that was planned and helps.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/remedy.h"
#include "profile/parts.h"

namespace plimsoll {

struct NextStep {
  std::string text;
  Changes changes;
  double update_seconds = 0;  // predicted
  double saved = 0;           // share of the predicted update
  bool changes_result = false;
};

struct ProfileVerdict {
  std::string verdict, why;
  std::optional<NextStep> next;  // absent: nothing that was planned saves kWorthwhile
};

// The shares of an update from which on a verdict holds, and the share that a step saves at least.
inline constexpr double kInputBound = 0.15, kIoBound = 0.15, kOptimizerBound = 0.35, kMemoryBound = 0.10;
inline constexpr double kWorthwhile = 0.05;

// `bound`: the roofline's seconds of the kernels of an update. `plan`: plimsoll.plan/1 with its levers. `memory`: the capacity of
// the tier that computes. `permitted`: false for changes that the training refuses, such as one that resumes.
ProfileVerdict verdict_on(const UpdateParts& parts, double bound, const nlohmann::json& plan, Bytes memory,
                          const std::function<bool(const Changes&)>& permitted = {});

}  // namespace plimsoll
