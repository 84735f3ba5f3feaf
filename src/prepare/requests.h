// What a configuration means to the stages below: the settings of the optimizer, the request and the budget of a plan.
#pragma once

#include <optional>
#include <vector>

#include "autodiff/training.h"
#include "config/config.h"
#include "plan/plan.h"
#include "prepare/setup.h"

namespace plimsoll {

struct PlaceRequest;

OptimizerSettings optimizer_settings(const Config& config);
// saves stays true. For a machine whose kernels run on the host.
// `ragged`: of the data (prepare/windows.h).
PlanRequest plan_request(const Config& config, const std::optional<RaggedWindows>& ragged = {});
Budget plan_budget(const Config& config);
// Where its plan runs, on a GPU at the pace of one kernel at a time.
PlaceRequest place_request(const Config& config);
// The training graph for each micro-batch. `config` outlives it.
GraphSource source_of(const Config& config, DataFacts facts);
// What the tiers past the first have room for.
std::vector<Bytes> rooms_beyond(const Budget& budget, bool host);

}  // namespace plimsoll
