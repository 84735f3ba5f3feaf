#include "profile/verdict.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace plimsoll {
namespace {

using nlohmann::json;

struct Lever {
  NextStep step;
  Bytes process;
  bool memory = false;  // changes the budget of memory alone
  bool fits = false;    // into the budget, or with a budget that this machine has, and permitted
};

// True for changes that train another model, or the same on other samples: their updates are no faster for the same work.
bool trains_something_else(const Changes& changes) {
  return std::ranges::any_of(changes, [](const Change& change) {
    const auto begins = [&](const char* section) { return change.key.starts_with(section); };
    return begins("model.") || begins("adapter.") || begins("quantize.") || begins("norm.") || begins("data.");
  });
}

Changes changes_from(const json& list) {
  Changes changes;
  for (const json& change : list) changes.emplace_back(change.at(0).get<std::string>(), change.at(1).get<std::string>());
  return changes;
}

std::vector<Lever> levers_of(const json& plan, Bytes memory, const std::function<bool(const Changes&)>& permitted) {
  const double own = plan.at("predicted").at("update_seconds");
  std::vector<Lever> levers;
  for (const json& row : plan.at("levers")) {
    Lever lever{{row.at("name"), changes_from(row.at("changes")), row.at("update_seconds"), 0, row.at("changes_result")},
                Bytes{row.at("process_bytes").get<std::int64_t>()}};
    lever.memory = lever.step.changes.size() == 1 && lever.step.changes.front().key == "memory.budget";
    lever.step.saved = own > 0 ? 1 - lever.step.update_seconds / own : 0;
    lever.fits = row.at("within_budget").get<bool>() || (lever.memory && lever.process <= memory);
    lever.fits = lever.fits && (!permitted || permitted(lever.step.changes));
    if (!trains_something_else(lever.step.changes)) levers.push_back(std::move(lever));
  }
  return levers;
}

// The best of the levers that are `wanted`: the smallest process of those that are about as fast as the fastest.
template <class Wanted>
std::optional<NextStep> best(const std::vector<Lever>& levers, Wanted&& wanted) {
  constexpr double kAlike = 1.03;
  const auto helps = [&](const Lever& lever) { return lever.fits && wanted(lever) && lever.step.saved >= kWorthwhile; };
  const Lever* fastest = nullptr;
  for (const Lever& lever : levers) {
    if (!helps(lever)) continue;
    if (fastest == nullptr || lever.step.update_seconds < fastest->step.update_seconds) fastest = &lever;
  }
  if (fastest == nullptr) return {};
  const Lever* chosen = fastest;
  for (const Lever& lever : levers) {
    const bool alike = helps(lever) && lever.step.update_seconds <= kAlike * fastest->step.update_seconds;
    if (alike && lever.process < chosen->process) chosen = &lever;
  }
  return chosen->step;
}

// Steps that keep the result come first.
std::optional<NextStep> next_step(const std::vector<Lever>& levers) {
  std::optional<NextStep> step = best(levers, [](const Lever& lever) { return !lever.step.changes_result; });
  return step ? step : best(levers, [](const Lever&) { return true; });
}

std::string percent(double share, const char* text) { return fmt::format("{:.0f} % {}", 100 * share, text); }

}  // namespace

ProfileVerdict verdict_on(const UpdateParts& parts, double bound, const json& plan, Bytes memory,
                          const std::function<bool(const Changes&)>& permitted) {
  const double all = parts.all();
  const std::vector<Lever> levers = levers_of(plan, memory, permitted);
  // Faster kernels would only wait longer.
  if (parts.data >= kInputBound * all) return {"INPUT-BOUND", percent(parts.data / all, "of the update waits for data"), {}};
  if (parts.copies >= kIoBound * all) {
    return {"IO-BOUND", percent(parts.copies / all, "of the update waits for copies between tiers"), next_step(levers)};
  }
  if (parts.update >= kOptimizerBound * all) {
    return {"OPTIMIZER-BOUND", percent(parts.update / all, "of the update is the optimizer"), next_step(levers)};
  }
  double saved = 0;
  for (const Lever& lever : levers) saved = std::max(saved, lever.memory ? lever.step.saved : 0);
  if (saved >= kMemoryBound) {
    const std::optional<NextStep> step = best(levers, [](const Lever& lever) { return lever.memory; });
    return {"MEMORY-BOUND", percent(saved, "of the update would go with more memory"), step ? step : next_step(levers)};
  }
  return {"COMPUTE-BOUND", percent(bound / all, "of the machine's rates are reached"), next_step(levers)};
}

}  // namespace plimsoll
