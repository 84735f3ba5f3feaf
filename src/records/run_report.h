// The contents of run.json: identity, state, prediction, measurement. `measured` never comes from the plan.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/config.h"
#include "data/sample_counts.h"
#include "plan/plan.h"
#include "run/audit.h"
#include "run/device.h"
#include "train/metrics.h"
#include "weights/progress.h"

namespace plimsoll {

// Bytes that this process has written: to the disk by the count of its store, and into checkpoints and weights.
struct WrittenReport {
  Bytes load, update, run, save;  // update: the last one; run: load and all updates

  void begin(Bytes loaded) { load = run = loaded; }
  // `all`: bytes since the process began.
  void add_update(Bytes all) {
    update = all - run;
    run = all;
  }
};

// The run and the update from which a fork took its state.
struct ParentRun {
  std::filesystem::path run;
  std::int64_t update = 0;
};

// The training data: the facts of an epoch.
struct DataRecord {
  std::vector<std::string> files, validation_files;
  std::int64_t samples = 0, tokens = 0, trained = 0;
  std::optional<double> fill;  // share of the rows' positions with a token; absent for a replayed plan of ragged rows
  SampleCounts counts;         // treatment of the samples
};

// The measurements of one of several ranks.
struct RankReport {
  int rank = 0;
  std::string host;
  std::int64_t pid = 0;
  Bytes process_hwm, arena, sent;
};

struct RunReport {
  std::string id;  // random; kept on resume
  std::string command, status = "running";
  int exit_code = 0;
  std::string data_hash, validation_hash, parameters_hash, fault;  // fault: the deliberate error
  std::optional<std::uintptr_t> arena_base = 0;  // 0 before it is mapped; absent for memory outside this process
  std::optional<EvaluationResult> validation;
  std::optional<Evaluation> best;
  std::optional<ParentRun> parent;
  std::string stopped;  // "no_improvement"; empty if the run was not stopped by its evaluations
  DataRecord data;
  Bytes measured_arena, process_hwm;
  WrittenReport written;
  std::vector<RankReport> ranks;  // empty in a process that trains alone

  // A segment of the run begins. `earlier`: the segments before it, as JSON.
  void begin(const Progress& from, std::string earlier);
  void describe(const Config& config, const Plan& plan, const Machine& machine, const Budget& budget);
  // Records the progress, also for a failed run.
  void note(const Progress& progress);
  // The same without a measurement of the process.
  void reach(const Progress& progress) { progress_ = progress; }
  // Called when something ran for the first time between updates, such as an evaluation. The next two updates are warm-up again.
  void warm_up_again() { noted_ = 0; }
  void fail(const Error& error);
  // `by`: "SIGTERM".
  void interrupt(const std::string& by);
  void finish(const Progress& progress, const Device& device, Audit* audit);
  nlohmann::json to_json() const;

 private:
  struct Phases {
    std::string name;
    Bytes arena, live;
  };
  std::int64_t seed_ = 0;
  std::string config_hash_, plan_hash_, graph_hash_, machine_hash_, instruction_set_;
  std::vector<std::string> libraries_;
  std::string environment_ = "{}";  // JSON
  int threads_ = 0;
  std::int64_t effective_ = 0, micro_ = 0, accumulation_ = 0, units_per_update_ = 0, stat_batch_ = 0;
  Budget budget_;
  Bytes predicted_process_, predicted_host_, predicted_arena_, predicted_live_;
  std::vector<Phases> measured_phases_;
  std::optional<Bytes> measured_live_, measured_device_;
  PerTier<std::optional<TierUse>> measured_tiers_;
  std::vector<Tier> tiers_;
  std::string method_ = "resident";
  Bytes warm_, grown_;  // resident after warm-up, and later growth, looked at ten times a second
  std::int64_t noted_ = 0;
  double counted_at_ = 0;  // seconds_now() of the last count of resident pages
  Progress progress_;
  std::string earlier_segments_ = "[]", begun_, ended_;
  std::int64_t from_update_ = 0;
  std::optional<Error> error_;
};

// The differences of the audit from the plan, phase by phase; empty if all bytes agree.
std::string audit_difference(const std::vector<PhasePlan>& planned, const std::vector<PhaseAudit>& measured);
// The error of a run with such a difference.
Error audit_error(std::string difference);

}  // namespace plimsoll
