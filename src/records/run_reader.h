// The reader of run folders: resume and all commands that look at runs use it. It changes nothing and waits for nobody. Every
// file is hostile to it: one that is broken, too large or not regular counts as absent, and a broken line is left out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "records/line_reader.h"
#include "train/metrics.h"

namespace plimsoll {

// A start or resume of a run.
struct RunSegment {
  std::string begun, ended;  // "2026-01-31T12:00:00Z"; `ended` is empty for a segment without an end
  std::string host, code;    // `code`: of its error; may be empty
  std::string config_hash, plan_hash, instruction_set;
  std::int64_t pid = 0, from_update = 0, last_update = 0, threads = 0;
  std::optional<std::int64_t> exit_code;
  std::optional<Bytes> budget;
};

// The program and the machine of the last segment. Texts are empty for runs of earlier versions.
struct RunEnvironment {
  std::string version, commit, system, processor, instruction_set;
  std::vector<std::string> libraries;
  std::int64_t threads = 0;
};

struct RunData {
  std::vector<std::string> files, validation_files;
  std::string hash, validation_hash;                         // `validation_hash` is empty without validation data
  std::optional<std::int64_t> samples, tokens, trained;      // of an epoch
  std::optional<double> fill;                                // share of the rows' positions with a token
  std::vector<std::pair<std::string, std::int64_t>> counts;  // treatment of the samples (data/sample_counts.h)
};

struct RunBytes {
  std::optional<Bytes> process, arena, live;
};

// run.json with the present status. Facts that it lacks, or has in another form, are empty, 0 or absent.
struct Run {
  std::filesystem::path path;  // the folder
  std::string name;            // its last part
  std::string id;              // empty for runs of earlier versions
  // "running", "done", "failed" or "interrupted"; empty if run.json cannot be read. A run that says "running" without a process
  // is "interrupted": it was killed, or its machine went down.
  std::string status;
  std::int64_t pid = 0;
  std::optional<std::int64_t> exit_code;
  std::string error_code, error_message;  // empty without an error
  std::string stopped;                    // "no_improvement"; empty if the run was not stopped by its evaluations
  std::string command, fault;
  std::int64_t seed = 0;
  std::string config_hash, plan_hash, graph_hash, machine_hash;
  RunEnvironment environment;
  RunData data;
  std::int64_t effective_batch = 0, micro_batch = 0, accumulation = 0, units_per_update = 0;
  std::int64_t ranks = 1;
  std::optional<Bytes> memory, host_memory, disk;  // budgets
  RunBytes predicted, measured;
  std::optional<Bytes> grown_after_warmup;
  // Progress. That of a run without an end comes from its last line (Run::last).
  std::int64_t updates = 0, samples = 0, units = 0;
  double seconds = 0;
  std::optional<double> loss, validation_loss, accuracy;  // at the end
  std::string parameters_hash;
  std::optional<Evaluation> best;
  std::optional<std::pair<std::string, std::int64_t>> parent;  // of a fork: the folder and the update
  std::vector<RunSegment> segments;                            // oldest first
  // The last line of metrics.jsonl; absent without one.
  std::optional<Metrics> last;
};

inline constexpr const char* kRunFile = "run.json";

// Never throws for what the folder holds.
Run read_run(const std::filesystem::path& folder);
// The same; E-RUN-MISSING (exit 2) if the folder is no run or its run.json cannot be read.
Run open_run_records(const std::filesystem::path& folder);

// True if a process trains in the folder, by its lock. `pid` decides on file systems without locks.
bool is_held(const std::filesystem::path& folder, std::int64_t pid);

// run.json; an empty object if it cannot be read.
nlohmann::json run_object(const std::filesystem::path& folder);

// The status of read_run().
std::string run_status(const std::filesystem::path& folder);
// True if the run ended because its validation loss did not improve.
bool run_stopped(const std::filesystem::path& folder);
// True if the run failed because its training diverged.
bool run_diverged(const std::filesystem::path& folder);

// The folders with a run.json in `folder` and up to `levels` below it, in the order of their paths. Links are not followed,
// except `folder` itself.
std::vector<std::filesystem::path> find_runs(const std::filesystem::path& folder, int levels = 3);

// Every key of config.resolved.toml with its value as JSON text. Empty if it cannot be read.
std::map<std::string, std::string> settings_of_run(const std::filesystem::path& folder);

}  // namespace plimsoll
