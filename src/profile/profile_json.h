// A profile as JSON (schema plimsoll.profile/1), the output of `profile --json` and the input of `profile --compare`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "profile/live_set.h"
#include "profile/measured_updates.h"
#include "profile/parts.h"
#include "profile/verdict.h"

namespace plimsoll {

struct Profile {
  MeasuredUpdates measured;
  UpdateParts parts;
  std::vector<OpRow> ops;
  LivePeak peak;
  ProfileVerdict verdict;
  std::vector<std::string> next_arguments;  // of the next step, as options
};

// The plan has its analysis.
nlohmann::json to_json(const Profile& profile, const Plan& plan, const Budget& budget);

}  // namespace plimsoll
