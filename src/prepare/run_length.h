// The length of a whole training in samples, tokens and seconds: the objects `run` and `epoch` of plimsoll.plan/1.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "config/config.h"
#include "prepare/planning.h"

namespace plimsoll {

// The plan of a pass; null if the training has none of this name.
const PhasePlan* find_phase(const Plan& plan, std::string_view name);

struct RunTimes {
  std::optional<double> evaluate;  // seconds of an evaluation with its answers; absent if the data are missing
  double save_rate = 0;            // bytes per second into the folder of runs
  double noise = 0;                // seconds of a measurement of the gradient noise
};
RunTimes times_of(const Config& config, const PlanningInput& input, const Plan& plan);

// {parameters, updates, samples, epochs, tokens, trained_units, seconds, evaluations, evaluation_seconds, saves, save_seconds,
// noise_seconds, total_seconds, micro_batch_chosen}. `seconds` counts the updates alone. `samples`, `tokens` and `trained_units`
// are counted in the windows that training cuts; null if the data are missing and the numbers do not follow from the context.
// Evaluations and saves count with the seconds of add_times; the final weights are a part of the saves.
nlohmann::json run_json(const Config& config, const PlanningInput& input, const Plan& plan, const RunTimes& times);

// Adds to the plan's JSON the seconds of one evaluation and of one checkpoint. predicted.evaluate_seconds is null if the data are
// missing. predicted.save_seconds follows from the bytes and the rate of the disk: the measured one, else kAssumedDiskRate. With
// train.noise_every also the object `noise` {every, measured, why_not, seconds, read_bytes}, of one measurement. `why_not`:
// null, "one round" in a window, or "shared gradients" between ranks.
void add_times(nlohmann::json& plan_json, const Config& config, const Plan& plan, const RunTimes& times);

// {samples, tokens, trained_units, updates, rows, fill, data}: an epoch of samples of their own lengths. `fill` is the share of
// row positions that samples take.
nlohmann::json epoch_json(const EpochFacts& epoch, const DataSet& train, std::int64_t context);

}  // namespace plimsoll
