// What a run of a plan writes: to a disk that it has, by loading, by each update and in all, and into checkpoints and weights.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "config/config.h"
#include "plan/plan.h"

namespace plimsoll {

// The checkpoints of a run, and their bytes with those of the weights at its end.
struct Saves {
  std::int64_t checkpoints = 0;
  Bytes bytes;
};
Saves saves_of(const Config& config, const Plan& plan);

// The object `written` of plimsoll.plan/1: {load_bytes, update_bytes, run_bytes, save_bytes}. The first three count the blocks of
// the page file, as its store does; they are those of a run that begins. `save_bytes` are checkpoints, by what the updates take
// where they are saved by the clock, and the weights at the end.
nlohmann::json written_json(const Config& config, const Plan& plan);

}  // namespace plimsoll
