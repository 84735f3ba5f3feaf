// The length of a whole training in samples, tokens and seconds: the objects `run` and `epoch` of plimsoll.plan/1.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "config/config.h"
#include "prepare/planning.h"

namespace plimsoll {

// {parameters, updates, samples, epochs, tokens, trained_units, seconds, evaluations, evaluation_seconds, saves, save_seconds,
// total_seconds, micro_batch_chosen}. `seconds` are those of the updates. `samples`, `tokens` and `trained_units` are counted in
// the windows that training cuts; null where the data are not there and do not follow from the context. Saves are assumed to go
// to a disk of kAssumedDiskRate, since planning measures none.
nlohmann::json run_json(const Config& config, const PlanningInput& input, const Plan& plan);

// {samples, tokens, trained_units, updates, rows, fill, data}: an epoch of samples of their own lengths. `fill` is the share of
// the positions of its rows that samples take.
nlohmann::json epoch_json(const EpochFacts& epoch, const TokenFile& train, std::int64_t context);

}  // namespace plimsoll
