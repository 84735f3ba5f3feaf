// What happens in a session, told as it happens. The files of a run, the progress line and whoever else wants to know are
// consumers. What an event refers to lives while it is told, and no longer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/bytes.h"
#include "base/error.h"
#include "config/config.h"
#include "config/run_settings.h"
#include "data/sample_counts.h"
#include "plan/plan.h"
#include "train/divergence.h"
#include "train/group_watch.h"
#include "train/metrics.h"
#include "train/validation_watch.h"
#include "weights/progress.h"

namespace plimsoll {

class Audit;
class Device;

// A line for people.
struct Said {
  std::string_view text;
};

// There is a plan, and room for what the run writes. Nothing has been written.
struct Planned {
  const Config& config;
  const Plan& plan;
  const Machine& machine;
  const Budget& budget;
  const std::string& data_hash;
  const SampleCounts& data;      // of the training data
  const std::string& plan_text;  // the plan's JSON
};

// The run begins, or goes on: what it is made of is written down. Of a run that goes on, the checkpoint has been read.
struct Begins {
  const Config& config;
  const RunSettings& settings;
  const std::string& plan_text;
  const std::string& layout_text;  // how weights are stored, where the run began from a folder; else empty
};
// What was written down of updates past this one goes.
struct Continues {
  std::int64_t updates = 0;
};
// Everything that was written down stays, whatever comes.
struct Begun {
  const Progress& reached;  // by the checkpoint of a run that goes on
};

struct Placed {
  std::optional<std::uintptr_t> base;  // of the arena, where it is in this process
};
// Everything is where it rests before the first update.
struct Loaded {
  Bytes written;  // to the disk
};
struct MadeWrong {
  const std::string& fault;
};

struct LoopBegins {
  std::int64_t updates = 0;  // after which it ends
  Bytes promised;
  bool evaluates = false;
};
// An update has been made. What cannot be written down of it ends the run, and the session saves before that.
struct Updated {
  const Metrics& metrics;
  const Progress& progress;
  Bytes written;  // to the disk, since the process began
};
struct Overflowed {
  const Overflow& overflow;
};
struct Warned {
  std::int64_t update = 0;
  const GroupWarning& warning;
};
// More spikes than a training that learns has.
struct Unstable {};
// The training diverges, and goes on all the same.
struct Diverging {
  const Divergence& divergence;
};
// The loss on validation data rises from evaluation to evaluation.
struct ValidationRises {
  std::int64_t update = 0;
  const ValidationRise& rise;
};
struct Evaluating {
  std::int64_t done = 0, samples = 0;
};
struct Evaluated {
  const Evaluation& evaluation;
};
// A checkpoint is about to presuppose all that was told.
struct Saving {};
struct Saved {
  std::int64_t updates = 0;
  Bytes written;  // into the checkpoint
  double seconds = 0;
};
struct LoopEnded {};

// The weights are saved.
struct Finished {
  const Plan& plan;
  const Progress& progress;
  const Device& device;
  Audit* audit;  // null without
  const std::string& parameters_hash;
  std::string_view stopped_by;  // "SIGTERM"; empty where the training is done
  Bytes promised;
  Bytes saved;  // as weights
};
// The last event, unless the session failed.
struct Ended {};
// The last event of a session that failed after there was a plan.
struct Failed {
  const Error& error;
  const Progress& reached;  // after the last update
};

using Event =
    std::variant<Said, Planned, Begins, Continues, Begun, Placed, Loaded, MadeWrong, LoopBegins, Updated, Overflowed, Warned,
                 Unstable, Diverging, ValidationRises, Evaluating, Evaluated, Saving, Saved, LoopEnded, Finished, Ended, Failed>;

class Consumer {
 public:
  virtual ~Consumer() = default;
  // An error that it throws ends the session.
  virtual void see(const Event& event) = 0;
};

}  // namespace plimsoll
