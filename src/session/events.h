// The events of a session, reported as they happen. Consumers are the files of a run, the progress line and others. References in
// an event are valid during the call only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "config/config.h"
#include "config/run_settings.h"
#include "data/data_set.h"
#include "plan/plan.h"
#include "records/run_report.h"
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

// There is a plan, and the disk has room for the files of the run. Nothing has been written.
struct Planned {
  const Config& config;
  const Plan& plan;
  const Machine& machine;
  const Budget& budget;
  const std::string& data_hash;
  const std::string& validation_hash;  // empty without validation data
  const DataSet& train;
  const std::string& plan_text;            // the plan's JSON
  const std::optional<ParentRun>& parent;  // of a fork
};

// The run begins or continues: consumers write its settings. The checkpoint of a resumed run has been read.
struct Begins {
  const Config& config;
  const RunSettings& settings;
  const std::string& plan_text;
  const std::string& layout_text;  // layout of stored weights if the run began from a folder; else empty
};
// Records of updates after this one are removed.
struct Continues {
  std::int64_t updates = 0;
};
// All records stay from here on.
struct Begun {
  const Progress& reached;                // the progress of a resumed run's checkpoint
  const std::optional<Evaluation>& best;  // so far
};

struct Placed {
  std::optional<std::uintptr_t> base;  // of an arena in this process
};
// All values are in place for the first update.
struct Loaded {
  Bytes written;  // to the disk
};
struct MadeWrong {
  const std::string& fault;
};

struct LoopBegins {
  std::int64_t updates = 0;  // the last update
  Bytes promised;
  bool evaluates = false;
};
// An update has been made. A consumer that cannot record it ends the run, after the session has saved.
struct Updated {
  const Metrics& metrics;
  const Progress& progress;
  Bytes written;  // to the disk, since the start of the process
};
struct Overflowed {
  const Overflow& overflow;
};
struct Warned {
  std::int64_t update = 0;
  const GroupWarning& warning;
};
// More spikes than in a healthy training.
struct Unstable {};
// The training diverges, and continues as configured.
struct Diverging {
  const Divergence& divergence;
};
// The loss on validation data rises over several evaluations.
struct ValidationRises {
  std::int64_t update = 0;
  const ValidationRise& rise;
};
struct Evaluating {
  std::int64_t done = 0, samples = 0;
};
struct Evaluated {
  const Evaluation& evaluation;
  const std::optional<Evaluation>& best;  // so far
};
// The answers to held-out prompts, right after the evaluation.
struct Answered {
  std::span<const Answer> answers;
};
// The weights of the best evaluation so far are saved.
struct BestSaved {
  const Evaluation& best;
  Bytes written;
};
// The schedule "plateau" lowers the rate.
struct RateFell {
  std::int64_t update = 0;  // of the evaluation
  double rate = 0;          // of the next update
};
// Something could not be written, and the run goes on.
struct NotSaved {
  std::int64_t update = 0;
  std::string_view what;
  const Error& error;
};
// A checkpoint is about to be written; it relies on all earlier events.
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
  Audit* audit;  // null without an audit
  const std::string& parameters_hash;
  std::string_view stopped_by;  // "SIGTERM"; empty if the training is complete
  bool no_improvement = false;  // true: it is complete because its evaluations did not improve
  double rate_share = 0;        // rate of the next update / peak rate
  Bytes promised;
  Bytes saved;                           // bytes of the weights
  const std::vector<RankReport>& ranks;  // empty in a process that trains alone
};
// The last event, unless the session failed.
struct Ended {};
// The last event of a session that fails after its plan.
struct Failed {
  const Error& error;
  const Progress& reached;  // after the last update
};

using Event = std::variant<Said, Planned, Begins, Continues, Begun, Placed, Loaded, MadeWrong, LoopBegins, Updated, Overflowed,
                           Warned, Unstable, Diverging, ValidationRises, Evaluating, Evaluated, Answered, BestSaved, RateFell,
                           NotSaved, Saving, Saved, LoopEnded, Finished, Ended, Failed>;

class Consumer {
 public:
  virtual ~Consumer() = default;
  // An error thrown here ends the session.
  virtual void see(const Event& event) = 0;
};

}  // namespace plimsoll
