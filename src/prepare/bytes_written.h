// The bytes that a run of a plan writes: to a disk of the plan (by loading, by each update and in all), and into checkpoints and
// weights.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "config/config.h"
#include "plan/plan.h"

namespace plimsoll {

// The number of checkpoints of a run, and the bytes of all checkpoints and of the final weights.
struct Saves {
  std::int64_t checkpoints = 0;
  Bytes bytes;
};
Saves saves_of(const Config& config, const Plan& plan);

// The bytes that one measurement of the gradient noise reads from a disk of the plan, in whole blocks.
Bytes read_by_noise(const Plan& plan);

// The object `written` of plimsoll.plan/1: {load_bytes, update_bytes, run_bytes, save_bytes}. The first three count the blocks of
// the page file, as its store does; they apply to a new run. `save_bytes` covers checkpoints and the final weights; checkpoints
// that are saved by the clock are counted by the seconds of the updates.
// The bytes of the run's folder and of the plan's pages.
nlohmann::json run_folder_json(const Config& config, const Plan& plan);
nlohmann::json written_json(const Config& config, const Plan& plan);

}  // namespace plimsoll
