// The planning of alternatives to a configuration, for levers and remedies. Each is planned itself, within a limit of work.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "base/error.h"
#include "plan/search/space.h"
#include "prepare/answers.h"
#include "prepare/changed_config.h"

namespace plimsoll {

// Alternatives are planned one after the other until they have taken this much work (PlanningEffort::work), earlier planning
// included: about ten seconds of a processor. The array `left_out` of plimsoll.plan/1 names the alternatives that were skipped,
// for lack of work or of memory for planning.
inline constexpr double kMostAlternativeWork = 10 * kWorkPerSecond;

// The cost of planning before the alternatives: `work` for other values of a solved key; `own` work and `memory` for the request
// itself.
struct Spent {
  double work = 0, own = 0;
  Bytes memory;
};

struct Outcome {
  Bytes process;
  double seconds = 0;
  std::int64_t micro_batch = 1;
  bool assumed_disk = false;  // the disk has not been measured
  bool floors_alone = false;  // the memory limit had no room for other plans; planning the change alone may find a faster one
};

// The outcome of a plan of the configuration, with the answers that fit beside it. `input`: its request, budget, machine and
// facts.
Outcome outcome_of(const Plan& plan, const Config& config, const PlanningInput& input, const AskedPrompts& asked);

// The outcome of a change, for the first of the budgets that it fits; empty if it fits none. Throws if the change is impossible,
// such as a disk that is too small for the state.
std::optional<Outcome> outcome_of(const ChangedConfig& changed, const PlanningInput& input, const Machine& machine,
                                  const std::vector<Budget>& budgets, const AskedPrompts& asked, double& work);

// The outcome of an attempt; empty also if the configuration refuses the change.
template <class Try>
std::optional<Outcome> unless_refused(const Try& attempt) {
  try {
    return attempt();
  } catch (const Error& error) {
    if (error.kind == ErrorKind::internal) throw;
    return {};
  }
}

// Runs body(i), which returns its work, for one alternative after the other, as long as the expected work of the next ones and
// the `work` so far stay within the limit. The expected work of one is the smaller of `each`, the work of the plan that it
// changes, and the largest work so far. The first one runs in any case if there was no work before. Some run in parallel; the
// selection does not depend on the number of threads. Returns the skipped ones. `floors_alone`, if given, becomes true when the
// memory limit has no room for one; this one and the following ones then get their smallest plans alone.
std::vector<std::size_t> look_at_alternatives(std::size_t count, double work, double each,
                                              const std::function<double(std::size_t)>& body,
                                              const std::function<void(std::size_t)>& forget, bool* floors_alone = nullptr);

}  // namespace plimsoll
