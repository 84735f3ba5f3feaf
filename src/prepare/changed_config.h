// A configuration with changes, and its request: levers, remedies, solved keys and first configurations are planned from it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/remedy.h"
#include "prepare/planning.h"

namespace plimsoll {
Changes both(Changes a, const Changes& b);
// [[key, value], ...]: the field "changes" of levers, remedies and solved keys. The command line replaces it by "arguments".
nlohmann::json to_json(const Changes& changes);
// The groups of batch normalisation, which otherwise follow the micro-batch. Empty if there are none.
Changes same_groups(const Config& config);
// A size of a budget: whole GiB, else whole MiB, else all bytes.
std::string budget_text(Bytes size);

// The number of ranks, which is an input of commands and no key.
inline constexpr const char* kRanks = "command.ranks";

struct ChangedConfig {
  Config config;
  PlanRequest request;
  Budget budget;         // a missing budget of memory is that of the input
  RunSettings settings;  // with the changes
  DataFacts facts;
};

// Requires `input.source`. Other ranks are planned for their fullest one. Throws config_error if the configuration refuses the
// changes.
ChangedConfig with_changes(const PlanningInput& input, const Changes& changes);

}  // namespace plimsoll
