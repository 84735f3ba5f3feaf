#include "prepare/changed_config.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "config/config_keys.h"
#include "config/image_rules.h"
#include "prepare/data_files.h"
#include "prepare/rank_plans.h"
#include "prepare/requests.h"

namespace plimsoll {

Changes both(Changes a, const Changes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Changes same_groups(const Config& config) {
  const std::int64_t group = stat_batch(config);
  return group > 0 ? Changes{{"norm.stat_batch", group}} : Changes{};
}

nlohmann::json to_json(const Changes& changes) {
  nlohmann::json list = nlohmann::json::array();
  for (const Change& change : changes) list.push_back({change.key, change.value});
  return list;
}

std::string budget_text(Bytes size) {
  if (size.n % kGiB.n == 0) return std::to_string(size.n / kGiB.n) + "GiB";
  return size.n % kMiB.n == 0 ? std::to_string(size.n / kMiB.n) + "MiB" : std::to_string(size.n);
}

namespace {

// The windows come from the data if the updates are cut as when the data were read. Otherwise they are assumed, as for missing
// data.
DataFacts facts_of(const Config& config, const PlanningInput& input) {
  DataFacts facts = input.facts;
  const bool same = input.request.units_per_sample == config.model.context &&
                    input.request.effective_batch == config.train.effective_batch && facts.packed == config.batch.packing;
  if (same) return facts;
  if (facts.packed != config.batch.packing) {
    facts.packed = config.batch.packing;
    facts.row = data_kind(config).assumed_shape(data_request(config, input.cache), input.assumed);
  }
  facts.ragged = assumed_windows(config);
  return facts;
}

}  // namespace

ChangedConfig with_changes(const PlanningInput& input, const Changes& changes) {
  ensure(input.source.has_value(), "planning", "the settings of the configuration are missing");
  RunSettings settings = input.source->settings;
  Changes of_keys = changes;
  int ranks = input.facts.share.ranks;
  std::erase_if(of_keys, [&](const Change& change) {
    if (change.key != kRanks) return false;
    ranks = std::stoi(change.value);
    return true;
  });
  std::ranges::move(typed_settings(of_keys), std::back_inserter(settings.typed));
  ChangedConfig changed{load_config(settings, input.source->bf16), {}, {}, {}, {}};
  const bool splits = std::ranges::find(changes, "train.micro_batch", &Change::key) != changes.end();
  // The micro-batch of a resumed run is fixed.
  if (!splits && !changed.config.train.micro_batch) changed.config.train.micro_batch = input.request.micro_batch;
  changed.facts = facts_of(changed.config, input);
  changed.request = plan_request(changed.config, changed.facts.ragged);
  if (ranks != input.facts.share.ranks) changed.facts.share = {0, ranks};
  changed.request.ranks = ranks;
  changed.budget = plan_budget(changed.config);
  if (!changed.budget.memory) changed.budget.memory = input.budget.memory;
  changed.request.beyond = rooms_beyond(changed.budget, has_host(input.machine.machine));
  changed.settings = std::move(settings);
  if (ranks != input.facts.share.ranks) {
    PlanningInput other{.request = changed.request, .machine = input.machine, .facts = changed.facts};
    changed.facts.share.rank = fullest_rank(changed.config, other);
  }
  return changed;
}

}  // namespace plimsoll
