// The updates of a training, as `train` makes them, under a timer. No file stays.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "config/config.h"
#include "measure/sharing.h"
#include "prepare/held_out_prompts.h"
#include "prepare/prepare.h"
#include "profile/audited_steps.h"
#include "profile/op_seconds.h"
#include "run/audit.h"
#include "train/metrics.h"

namespace plimsoll {

struct MeasureRequest {
  std::int64_t updates = 5;          // measured, after a first one
  bool audit = false;                // the audit watches every instruction; its times are no measurement
  std::filesystem::path checkpoint;  // the state to begin with; empty: a new run
  double rate_factor = 1;            // of the schedule "plateau", after the evaluations of the run
  HeldOutPrompts prompts;            // of `prepared`, to answer in the evaluation
  std::filesystem::path folder;      // for the checkpoint that is saved once; the caller removes it
  std::filesystem::path times;       // for the times of one more update (profile/update_times.h); empty: none
  std::function<bool()> stopped;     // E-INTERRUPTED once it returns true, between updates
};

struct MeasuredUpdates {
  std::vector<Metrics> updates;              // the first one is the warm-up
  SecondsByKind seconds;                     // of the measured ones
  std::vector<InstructionTimer::Runs> runs;  // of these, by section
  std::optional<double> evaluate_seconds;    // one evaluation with its answers; absent without validation data
  double save_seconds = 0;                   // one checkpoint
  std::vector<PhaseAudit> audited;
  std::vector<AuditedInstruction> audited_at;
  Bytes timer;    // bytes of the timer
  Bytes planned;  // of the process, with the timer
  Bytes process;  // the peak by the count of the system
  std::vector<ReserveItem> reserve;
  Sharing sharing;  // the processors' use by other work during the measured updates

  double update_seconds() const;  // mean of the measured ones
  double wait_seconds() const;    // likewise, for data
};

// The timer's bytes as an item of the reserve. It is gone before a checkpoint is read back, so the two share their bytes.
void reserve_timer(Plan& plan, Bytes timer);

// Trains by the plan of `prepared`. Throws E-PLAN-FIT (exit 3) if the budget has no room for the timer, and the errors of a
// training.
MeasuredUpdates measure_updates(const Config& config, const Prepared& prepared, MeasureRequest request);

}  // namespace plimsoll
