#include "prepare/asked.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "config/config_keys.h"
#include "data/sample_file.h"
#include "prepare/requests.h"

namespace plimsoll {

Arguments sets(std::initializer_list<std::string> assignments) {
  Arguments arguments;
  for (const std::string& each : assignments) arguments.insert(arguments.end(), {"--set", each});
  return arguments;
}

Arguments both(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string argument_of(Bytes size) {
  if (size.n % kGiB.n == 0) return std::to_string(size.n / kGiB.n) + "GiB";
  return size.n % kMiB.n == 0 ? std::to_string(size.n / kMiB.n) + "MiB" : std::to_string(size.n);
}

namespace {

// The windows come from the data if updates are cut as they were when these were read, else they are assumed as for missing data.
DataFacts facts_of(const Config& asked, const PlanningInput& input) {
  DataFacts facts = input.facts;
  const bool same = input.request.units_per_sample == asked.model.context &&
                    input.request.effective_batch == asked.train.effective_batch && facts.packed == asked.batch.packing;
  if (same) return facts;
  facts.packed = asked.batch.packing;
  facts.ragged = assumed_windows(asked);
  if (facts.packed) facts.bytes_per_row = StoredSamples::staging_bytes_per_row(asked.model.context, true);
  return facts;
}

}  // namespace

Asked with_arguments(const PlanningInput& input, const Arguments& arguments) {
  ensure(input.source.has_value(), "planning", "nobody knows what the configuration was made of");
  Arguments assignments;
  BudgetOptions budgets;
  bool splits = false;
  for (std::size_t i = 0; i < arguments.size(); i += 2) {
    const std::string &option = arguments[i], &value = arguments[i + 1];
    if (option == "--set") assignments.push_back(value);
    if (option == "--memory") budgets.memory = value;
    if (option == "--host-memory") budgets.host_memory = value;
    if (option == "--disk") budgets.disk = value;
    splits = splits || value.starts_with("train.micro_batch=");
  }
  RunSettings settings = input.source->settings;
  std::ranges::move(typed_settings(assignments, budgets), std::back_inserter(settings.typed));
  Asked asked{load_config(settings, input.source->bf16), {}, {}, {}, {}};
  // A resumed run has decided it.
  if (!splits && !asked.config.train.micro_batch) asked.config.train.micro_batch = input.request.micro_batch;
  asked.facts = facts_of(asked.config, input);
  asked.request = plan_request(asked.config, asked.facts.ragged);
  asked.budget = plan_budget(asked.config);
  if (!asked.budget.memory) asked.budget.memory = input.budget.memory;
  asked.request.beyond = rooms_beyond(asked.budget, has_host(input.machine.machine));
  asked.settings = std::move(settings);
  return asked;
}

}  // namespace plimsoll
