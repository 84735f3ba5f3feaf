#include "prepare/levers.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "config/config_rules.h"
#include "config/image_rules.h"
#include "prepare/model_changes.h"

namespace plimsoll {
namespace {

using nlohmann::json;

// Moves values to the next tier, the least often read first.
std::vector<Alternative> tier_levers(const std::string& tier) {
  return {{"optimizer state on the " + tier,
           {{"plan.optimizer_state", "disk"}, {"plan.parameters", "memory"}, {"plan.gradients", "memory"}}},
          {"parameters and gradients of the blocks, too",
           {{"plan.optimizer_state", "disk"}, {"plan.parameters", "disk"}, {"plan.gradients", "disk"}}},
          {"blocks made again from inputs on the " + tier,
           {{"plan.optimizer_state", "disk"}, {"plan.activations", "disk"}, {"plan.recompute", "all"}}}};
}

// Narrower numbers and smaller state. Another split of the batch changes the rounding of sums alone; these change more.
std::vector<Alternative> number_levers(const Config& config) {
  std::vector<Alternative> list;
  if (config.precision.compute == DType::f32) {
    list.push_back({"products in bf16", {{"precision.compute", "bf16"}}, true});
    if (config.precision.parameters == DType::f32) {
      list.push_back({"weights in bf16, too", {{"precision.compute", "bf16"}, {"precision.parameters", "bf16"}}, true});
    }
  }
  std::vector<Alternative> narrower = narrower_state(config);
  if (narrower.empty()) return list;
  std::ranges::move(narrower, std::back_inserter(list));
  if (config.optimizer.kind == OptimizerKind::adamw && !config.schedule.momentum && !config.optimizer.half_lives) {
    list.push_back({"Adafactor instead of AdamW", {{"optimizer.name", "adafactor"}}, true});
  }
  return list;
}

// The nearest divisors of the effective batch below and above the micro-batch, and 1.
std::vector<std::int64_t> other_micro_batches(std::int64_t batch, std::int64_t micro) {
  std::vector<std::int64_t> sizes;
  std::int64_t below = 1, above = batch;
  for (std::int64_t size = 1; size <= batch; ++size) {
    if (batch % size != 0) continue;
    if (size < micro) below = size;
    if (size > micro) above = std::min(above, size);
  }
  for (const std::int64_t size : {std::int64_t{1}, below, above}) {
    if (size != micro && std::ranges::find(sizes, size) == sizes.end()) sizes.push_back(size);
  }
  return sizes;
}

std::int64_t many_together(std::int64_t accumulation) {
  constexpr std::int64_t kMostTogether = 8;
  std::int64_t together = 1;
  for (std::int64_t group = 2; group <= std::min(kMostTogether, accumulation); ++group) {
    if (accumulation % group == 0) together = group;
  }
  return together;
}

// Other trainings, with a few changes of each kind: each costs a plan.
std::vector<Alternative> model_levers(const Config& config, const PlanningInput& input) {
  std::vector<Alternative> list = new_adapters(config);
  const auto add = [&](std::vector<Alternative> more) { std::ranges::move(more, std::back_inserter(list)); };
  add(other_ranks(config));
  add(other_bases(config));
  if (std::vector<Alternative> shorter = shorter_samples(config); !shorter.empty()) add({std::move(shorter.front())});
  add(longer_samples(config));
  add(frozen_parts(config, input));
  return list;
}

// Each lever decides one thing differently from the plan.
std::vector<Alternative> all_levers(const Config& config, const PlanningInput& input, const PlanDecisions& decisions) {
  const std::int64_t batch = input.request.effective_batch;
  std::vector<Alternative> list{{"recompute nothing", {{"plan.recompute", "none"}}},
                                {"recompute every block", {{"plan.recompute", "all"}}}};
  const auto add = [&](const std::vector<Alternative>& more) { list.insert(list.end(), more.begin(), more.end()); };
  list.push_back(decisions.loss_chunks == 1 ? Alternative{"loss in 16 chunks", {{"plan.loss_chunks", 16}}}
                                            : Alternative{"loss in one piece", {{"plan.loss_chunks", 1}}});
  for (const std::int64_t micro : other_micro_batches(batch, decisions.micro_batch)) {
    if (micro % input.request.row_step != 0) continue;
    Changes changes{{"train.micro_batch", micro}};
    if (config.train.effective_tokens == 0 && !config.batch.packing) changes.emplace_back("train.accumulation", batch / micro);
    list.push_back({fmt::format("micro-batch {}", micro), both(std::move(changes), same_groups(config)), true});
  }
  const std::int64_t together = many_together(decisions.accumulation);
  if (decisions.group > 1) {
    list.push_back({"one micro-batch after the other", {{"plan.group", 1}}});
  } else if (together > 1) {
    list.push_back({fmt::format("{} micro-batches through a block together", together), {{"plan.group", together}}});
  }
  if (!input.request.beyond.empty()) {
    const std::size_t first = input.request.beyond.front().n > 0 ? 1 : 2;
    const std::vector<Tier>& tiers = input.machine.machine.tiers;
    list.push_back({"everything in memory",
                    {{"plan.optimizer_state", "memory"},
                     {"plan.parameters", "auto"},
                     {"plan.gradients", "auto"},
                     {"plan.activations", "auto"}}});
    add(tier_levers(first < tiers.size() ? tiers[first].name : "disk"));
  }
  add(number_levers(config));
  add(model_levers(config, input));
  return list;
}

struct Lever {
  Alternative alternative;
  Outcome outcome;
};

// Smaller and larger budgets, which the plan's own search answers. A point whose search runs out of memory goes to `left_out`.
std::vector<Lever> budget_levers(const Config& config, PlanSpace& space, const PlanningInput& input, const Plan& plan,
                                 const AskedPrompts& asked, json& left_out) {
  const std::tuple<const char*, const char*, Bytes> points[] = {{"the floor", "less memory: the floor", plan.floor},
                                                                {"the knee", "less memory: the knee", plan.knee},
                                                                {"the ceiling", "less memory: the ceiling", plan.ceiling}};
  std::vector<Lever> rows;
  for (const auto& [point, less, bytes] : points) {
    Budget budget = input.budget;
    budget.memory = align_up(bytes, kMiB);
    const Plan* found = nullptr;
    Outcome outcome;
    try {
      found = space.fastest(budget);
      if (found == nullptr) continue;
      const PlanningInput own{.request = input.request, .budget = budget, .machine = input.machine, .facts = input.facts};
      outcome = outcome_of(*found, config, own, asked);
    } catch (const std::bad_alloc&) {
      left_out.push_back(fmt::format("memory: {}", point));
      continue;
    }
    const std::string name = outcome.process < plan.process ? less : fmt::format("more memory: {}", point);
    rows.push_back(
        {{name, {{"memory.budget", budget_text(*budget.memory)}}, found->decisions.micro_batch != plan.decisions.micro_batch},
         outcome});
  }
  return rows;
}

bool alike(double a, double b) {
  constexpr double kShare = 1e-3;
  return std::abs(a - b) <= kShare * std::max(a, b);
}
bool alike(const Outcome& a, const Outcome& b) {
  return alike(static_cast<double>(a.process.n), static_cast<double>(b.process.n)) && alike(a.seconds, b.seconds);
}

}  // namespace

void add_levers(json& object, const Config& config, const PlanningInput& input, PlanSpace& space, const Plan& plan,
                const Spent& spent, const AskedPrompts& asked) {
  json left_out = json::array();
  std::vector<Lever> rows = budget_levers(config, space, input, plan, asked, left_out);
  const std::vector<Alternative> all = all_levers(config, input, plan.decisions);
  std::vector<std::optional<Lever>> planned(all.size());
  // Levers on other keys keep the micro-batch, and with it the bits.
  const bool pin = !input.request.micro_batch && input.request.effective_batch > 1;
  const Changes pinned{{"train.micro_batch", plan.decisions.micro_batch}};
  const auto look = [&](std::size_t i) {
    double work = 0;
    Alternative lever = all[i];
    if (pin && lever.changes.front().key != pinned.front().key) {
      const bool groups = std::ranges::find(lever.changes, "norm.stat_batch", &Change::key) != lever.changes.end();
      lever.changes = both(groups ? pinned : both(pinned, same_groups(config)), lever.changes);
    }
    const std::optional<Outcome> outcome = unless_refused([&] {
      const ChangedConfig changed = with_changes(input, lever.changes);
      Budget open = changed.budget;
      open.memory.reset();
      return outcome_of(changed, input, input.machine.machine, {changed.budget, open}, asked, work);
    });
    if (outcome) planned[i] = Lever{std::move(lever), *outcome};
    return work;
  };
  for (const std::size_t i :
       look_at_alternatives(all.size(), spent.work, spent.own, look, [&](std::size_t i) { planned[i].reset(); })) {
    left_out.push_back(all[i].text);
  }
  for (std::optional<Lever>& row : planned) {
    if (row) rows.push_back(std::move(*row));
  }
  const Outcome own{plan.process, plan.update_seconds, plan.decisions.micro_batch};
  std::vector<Lever> kept;
  for (Lever& row : rows) {
    const auto same = [&](const Lever& other) {
      return other.alternative.changes_result == row.alternative.changes_result && alike(other.outcome, row.outcome);
    };
    // More bytes for the same time are no useful effect.
    const bool in_vain =
        alike(row.outcome.seconds, own.seconds) && (row.outcome.process > own.process || alike(row.outcome, own));
    if (!in_vain && std::ranges::none_of(kept, same)) kept.push_back(std::move(row));
  }
  std::ranges::stable_sort(kept, {}, [](const Lever& row) { return row.outcome.seconds; });
  json list = json::array();
  for (const Lever& row : kept) {
    list.push_back({{"name", row.alternative.text},
                    {"changes", to_json(row.alternative.changes)},
                    {"process_bytes", row.outcome.process.n},
                    {"update_seconds", row.outcome.seconds},
                    {"changes_result", row.alternative.changes_result},
                    {"within_budget", !input.budget.memory || row.outcome.process <= *input.budget.memory}});
  }
  object["levers"] = std::move(list);
  object["left_out"] = std::move(left_out);
}

}  // namespace plimsoll
