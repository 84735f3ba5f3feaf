#include "prepare/solve.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "config/config_keys.h"
#include "plan/plan.h"
#include "plan/search/space.h"
#include "prepare/alternatives.h"
#include "prepare/boundary.h"
#include "prepare/changed_config.h"
#include "prepare/leaving.h"
#include "prepare/rank_plans.h"
#include "prepare/requests.h"
#include "prepare/solve_keys.h"

namespace plimsoll {
namespace {

using nlohmann::json;

// The outcome of a value.
struct Trial {
  std::optional<Bytes> floor;    // floor of the plan, process bytes
  Bytes memory;                  // memory budget of the plan
  Bytes used;                    // bytes of the fastest plan on the disk or the host; only for budgets of these
  std::optional<Error> refused;  // refusal by the rules of the configuration, or for lack of room on a tier

  bool fits() const { return !refused && floor && *floor <= memory; }
};

// The bytes of the plan that count for a budget of the disk or of the host; on a host, the process is included.
Bytes used_of(SolvedBudget budget, const Plan& plan, const Machine& machine) {
  return budget == SolvedBudget::host_memory ? plan.host : plan.stored[disk_of(machine)];
}

class Solver {
 public:
  Solver(const Config& config, PlanningInput input, SolveKey key)
      : config_(config), input_(std::move(input)), key_(std::move(key)) {}

  PlanningResult run(const PlanExtras& extras) {
    const std::optional<std::int64_t> found = found_value();
    // If no value fits, the answer is the outcome of the most favourable one: the smallest size, or the largest room.
    const std::int64_t value = found.value_or(most_favourable());
    if (!found && trials_.at(value).refused) throw *trials_.at(value).refused;
    PlanExtras told = extras;
    told.work = work_;
    if (extras.decided) {
      told.decided = [&](json plan) {
        plan["solve"] = solve_json(found);
        extras.decided(plan);
      };
    }
    PlanningResult result = whole_plan(key_.with(value), told);
    ensure(result.plan.has_value() == found.has_value(), "solve", "the plan of a value is another one than before");
    json object = json::parse(result.text);
    object["solve"] = solve_json(found);
    result.text = object.dump(1);
    return result;
  }

 private:
  std::optional<std::int64_t> found_value() {
    switch (key_.budget) {
      case SolvedBudget::none: return largest();
      case SolvedBudget::memory: return least_memory();
      case SolvedBudget::ranks: return fewest_ranks();
      case SolvedBudget::host_memory:
      case SolvedBudget::disk: return least_room();
    }
    return {};
  }
  std::int64_t most_favourable() {
    switch (key_.budget) {
      case SolvedBudget::none: return key_.value_of(0);
      case SolvedBudget::ranks: return most_ranks();
      case SolvedBudget::memory:
      case SolvedBudget::host_memory:
      case SolvedBudget::disk: return most_room();
    }
    return 0;
  }

  // The changes precede the changes of the plan's levers and remedies.
  PlanningResult whole_plan(const Changes& changes, const PlanExtras& extras) {
    ChangedConfig changed = with_changes(input_, changes);
    ++plans_;
    for (const std::string& note : changed.config.notes) {
      if (std::ranges::find(config_.notes, note) == config_.notes.end()) notes_.push_back(note);
    }
    input_.request = std::move(changed.request);
    input_.budget = changed.budget;
    input_.facts = changed.facts;
    input_.machine = machine_for_ranks(std::move(input_.machine), changed.facts.share.ranks);
    renew_data(changed);
    input_.source->settings = std::move(changed.settings);
    return plan_with_extras(changed.config, input_, extras);
  }

  // Counts of an epoch and the number of updates follow from the context and the batch. A plan alone does not make samples for
  // another context.
  void renew_data(ChangedConfig& changed) {
    const bool other_rows = changed.config.model.context != config_.model.context;
    const bool other_windows = other_rows || changed.config.train.effective_batch != config_.train.effective_batch;
    if (!other_windows || !input_.assumed.empty()) return;
    if (other_rows && data_kind(changed.config).own_lengths) {
      if (std::vector<AssumedData> unprepared = unprepared_data(changed.config, input_.cache); !unprepared.empty()) {
        notes_.push_back(fmt::format("{} has not been tokenised for samples of {} tokens: the figures of an epoch are left out",
                                     changed.config.data.train.text(), changed.config.model.context));
        input_.data = {};
        input_.epoch.reset();
        input_.assumed = std::move(unprepared);
        return;
      }
      input_.data = open_data(changed.config, input_.cache);
    }
    if (input_.epoch) input_.epoch = epoch_facts(changed.config, *input_.data.train);
    if (!changed.config.train.epochs) return;
    changed.config.train.updates = updates_of_epochs(changed.config, *input_.data.train);
    changed.settings.typed.push_back(typed_setting({"train.updates", changed.config.train.updates}, "train.epochs"));
  }

  const Trial& trial(std::int64_t value) {
    const auto known = trials_.find(value);
    return known != trials_.end() ? known->second : trials_.emplace(value, tried(value)).first->second;
  }

  Trial tried(std::int64_t value) {
    Trial trial;
    try {
      ChangedConfig changed = with_changes(input_, key_.with(value));
      changed.request.floor_only = floors_alone_;
      trial.memory = changed.budget.memory.value_or(Bytes{});
      const MachineRecord record = machine_for_ranks(input_.machine, changed.facts.share.ranks);
      OpCatalogue catalogue = catalogue_of(record);
      ++plans_;
      const int ranks = changed.facts.share.ranks;
      each_stage(changed.config, changed.facts, changed.request, [&](const DataFacts& facts, const PlanRequest& request) {
        PlanSpace space(source_of(changed.config, facts), request, record.machine, catalogue);
        work_ += space.effort().work;
        Bytes floor = space.floor();
        if (ranks > 1) {
          const PlanningInput of_ranks{.request = request, .budget = changed.budget, .machine = record, .facts = facts};
          floor = floor_of_ranks(changed.config, of_ranks, space);
        }
        trial.floor = std::min(trial.floor.value_or(floor), floor);
        const bool room = key_.budget == SolvedBudget::disk || key_.budget == SolvedBudget::host_memory;
        if (!room || !trial.fits()) return;
        const Plan* plan = space.fastest(changed.budget);
        if (plan != nullptr) trial.used = used_of(key_.budget, *plan, input_.machine.machine);
      });
    } catch (const Error& error) {
      if (error.kind == ErrorKind::internal) throw;
      trial.refused = error;
    }
    return trial;
  }

  // The smallest plans of the smallest micro-batch alone come first: a value that fits with these fits. Other values are planned
  // in full.
  std::optional<std::int64_t> largest() {
    floors_alone_ = true;
    std::optional<std::int64_t> last = largest_from(key_.number_of(key_.now));
    floors_alone_ = false;
    std::erase_if(trials_, [](const auto& each) { return !each.second.fits(); });
    if (!last || trial(key_.value_of(*last + 1)).fits()) last = largest_from(last ? *last + 1 : 0);
    if (!last) return {};
    next_ = key_.value_of(*last + 1);
    return key_.value_of(*last);
  }

  // Budgets come from the configuration and do not depend on the value.
  std::optional<std::int64_t> largest_from(std::int64_t start) {
    const double room = static_cast<double>(input_.budget.memory.value_or(Bytes{}).n);
    return last_that_fits(start, room, [&](std::int64_t number) {
      const Trial& one = trial(key_.value_of(number));
      return Tried{one.fits(), one.floor ? std::optional(static_cast<double>(one.floor->n)) : std::nullopt};
    });
  }

  // The floor, which is exact and independent of any budget: one page less does not fit.
  std::optional<std::int64_t> least_memory() {
    const Trial& open = trial(key_.now);
    if (!open.floor) throw *open.refused;
    const Bytes floor = *open.floor;
    next_ = floor.n - key_.step;
    trials_.insert_or_assign(*next_, Trial{.floor = floor, .memory = Bytes{*next_}, .used = {}, .refused = {}});
    return floor.n;
  }

  // A room that is certainly enough: four times the bytes that may leave memory, and 8 GiB for a process. At least the given
  // room.
  std::int64_t most_room() {
    constexpr Bytes kBeside{8 * kGiB.n};
    if (most_ == 0) most_ = std::max(key_.now, (leaving_of(config_, input_).all * 4 + kBeside).n) / key_.step * key_.step;
    return most_;
  }

  std::optional<std::int64_t> least_room() {
    const auto first = first_that_fits(key_.number_of(most_room()), [&](std::int64_t number) {
      const Trial& one = trial(key_.value_of(number));
      return Enough{one.fits(), key_.number_of(align_up(one.used, Bytes{key_.step}).n)};
    });
    if (!first) return {};
    if (*first > 0) next_ = key_.value_of(*first - 1);
    return key_.value_of(*first);
  }

  // More ranks than micro-batches share no more work.
  std::int64_t most_ranks() const {
    constexpr std::int64_t kMost = 64;
    const PlanRequest& request = input_.request;
    return std::max(key_.now, std::min(kMost, request.effective_batch / request.micro_batch.value_or(request.row_step)));
  }

  // Doubles the ranks until a rank's plan fits, then halves the gap.
  std::optional<std::int64_t> fewest_ranks() {
    const std::int64_t most = most_ranks();
    std::int64_t below = 0, fits = 1;
    while (!trial(fits).fits()) {
      if (fits == most) return {};
      below = std::exchange(fits, std::min(most, fits * 2));
    }
    while (fits - below > 1) {
      const std::int64_t middle = (below + fits) / 2;
      (trial(middle).fits() ? fits : below) = middle;
    }
    if (below > 0) next_ = below;
    return fits;
  }

  json next_json() {
    const Trial& next = trial(*next_);
    const bool known = next.floor && *next.floor != Bytes{std::numeric_limits<std::int64_t>::max()};
    const auto bytes_or_null = [&](Bytes bytes) { return known ? json(bytes.n) : json(nullptr); };
    json object = {{"value", *next_},
                   {"status", next.refused ? "refused" : "infeasible"},
                   {"code", next.refused ? next.refused->code : "E-PLAN-FIT"},
                   {"message", next.refused ? json(next.refused->message) : json(nullptr)},
                   {"process_bytes", bytes_or_null(next.floor.value_or(Bytes{}))},
                   {"short_bytes", known ? json((*next.floor - next.memory).n) : json(nullptr)}};
    return object;
  }

  json solve_json(std::optional<std::int64_t> found) {
    const bool bytes = key_.budget != SolvedBudget::none && key_.budget != SolvedBudget::ranks;
    json object = {{"key", key_.name},
                   {"least", key_.budget != SolvedBudget::none},
                   {"unit", bytes ? json("bytes") : json(nullptr)},
                   {"value", nullptr},
                   {"step", key_.step},
                   {"changes", json::array()},
                   {"next", nullptr}};
    if (found) {
      object["value"] = *found;
      object["changes"] = to_json(key_.with(*found));
    }
    if (next_) {
      object["step"] = std::abs(*next_ - *found);
      object["next"] = next_json();
    }
    object["plans"] = plans_;
    object["notes"] = notes_;
    return object;
  }

  const Config& config_;
  PlanningInput input_;
  SolveKey key_;
  std::map<std::int64_t, Trial> trials_;  // the trials by value
  bool floors_alone_ = false;
  std::optional<std::int64_t> next_;
  std::vector<std::string> notes_;  // notes on the found value
  std::int64_t most_ = 0;
  int plans_ = 0;
  double work_ = 0;  // work of all trials
};

}  // namespace

PlanningResult solve(const Config& config, PlanningInput input, std::string_view key, const PlanExtras& extras) {
  keep_freed_memory();
  SolveKey known = solve_key(key, config, input);
  return Solver(config, std::move(input), std::move(known)).run(extras);
}

}  // namespace plimsoll
