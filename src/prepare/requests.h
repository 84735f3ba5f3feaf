// The values that later stages take from a configuration: optimizer settings, plan request and budget.
#pragma once

#include <optional>
#include <vector>

#include "autodiff/training.h"
#include "config/config.h"
#include "plan/plan.h"
#include "prepare/training_graph.h"

namespace plimsoll {

struct PlaceRequest;

OptimizerSettings optimizer_settings(const Config& config);
// The request for a machine whose kernels run on the host; `saves` stays true. `ragged`: the windows of the data
// (prepare/epochs.h).
PlanRequest plan_request(const Config& config, const std::optional<RaggedWindows>& ragged = {}, std::int64_t ranks = 1);
// The request for a stage of ZeRO. Values that messages between ranks carry stay in memory. E-CONFIG-CONFLICT if a key wants
// them on a disk.
PlanRequest request_of_stage(PlanRequest request, std::int64_t stage);
Budget plan_budget(const Config& config);
// The place where the plan runs. Callers set the pace of a GPU; by default it launches its kernels one by one.
PlaceRequest place_request(const Config& config);
// The training graph for each micro-batch. `config` outlives it.
GraphSource source_of(const Config& config, DataFacts facts);
// The room of each tier past the first.
std::vector<Bytes> rooms_beyond(const Budget& budget, bool host);

}  // namespace plimsoll
