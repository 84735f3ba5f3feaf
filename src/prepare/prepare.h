// The preparation of a training: it measures the machine, tokenises and plans. This takes memory of its own, so it runs in a
// child process, which returns a small record. The process that trains rebuilds the same plan from the record.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <variant>

#include "config/config.h"
#include "config/run_settings.h"
#include "measure/calibrate.h"
#include "measure/machine_file.h"
#include "prepare/data_files.h"
#include "prepare/held_out_prompts.h"
#include "prepare/plan_json.h"
#include "prepare/training_graph.h"

namespace plimsoll {

using Say = std::function<void(const std::string&)>;

struct Prepared {
  PlanRecord record;
  Machine machine;
  std::map<std::string, std::string> algorithms;  // as in the machine's file
  DataFiles data;
  std::string data_hash;
  std::optional<RaggedWindows> ragged;
  std::string plan_text;   // the plan's JSON
  Budget budget;           // the budget of the plan: the request, or the memory of the machine
  RankShare share;         // the rank that the plan is for
  HeldOutPrompts prompts;  // to answer at each evaluation
};

// A plan that does not fit, as JSON with remedies.
struct Refused {
  std::string plan_text;
};

struct PrepareOptions {
  std::optional<MachineRecord> machine;     // the target of the plan; absent: this machine
  Probe probe;                              // measures this machine if no file has it
  std::filesystem::path cache;              // for machine files and tokens
  std::filesystem::path plan_file;          // replay this plan; empty: plan anew
  std::optional<std::int64_t> micro_batch;  // micro-batch of the resumed run
  std::filesystem::path runs = ".";         // the parent of the run folder
  std::filesystem::path tokens;             // for tokens if the cache cannot be written; empty: nowhere
  std::filesystem::path weights_folder;     // folder of the run's weights, for their companion files; empty: not saved
  bool resumes = false;                     // existing files stay
  std::optional<RunSettings> settings;      // the settings from which the configuration was made
  RankShare share = {};                     // of this process
  Bytes peers = {};                         // memory of the messages between ranks
  bool levers = false;                      // plan the levers as well
  std::filesystem::path machine_file;       // gets the machine with its kernels' seconds; empty: not written
  std::function<bool()> stopped;            // polled while planning: E-INTERRUPTED once it returns true
  std::function<void(const nlohmann::json& plan)> decided;  // called for a refusal, in the child, before the search for remedies
};

std::variant<Prepared, Refused> prepare_training(const Config& config, const PrepareOptions& options, const Say& say);

// The same in two steps, for several ranks: the first rank prepares, and all read the text.
std::string preparation(const Config& config, const PrepareOptions& options, const Say& say);
std::variant<Prepared, Refused> read_preparation(const Config& config, const PrepareOptions& options, const std::string& text);
// The part of the first rank's text that the others need; empty for a refusal.
std::string preparation_for_others(const std::string& text);
// The text of another rank: it opens the data on its own host, and lays its plan out by the decisions of the first.
// E-RANK-MISMATCH (exit 2) if its data differ.
std::string preparation_of_rank(const Config& config, const PrepareOptions& options, const std::string& text);

// The facts of the planned graph, with the passes that answer.
DataFacts facts_of(const Config& config, const Prepared& prepared);

// Rebuilds the plan that prepare_training decided, in this process. It has predicted seconds only with the `machine` of
// PrepareOptions::machine_file.
Plan rebuild_plan(const Config& config, const TrainingGraph& model, const Prepared& prepared,
                  const MachineRecord* machine = nullptr);

// Throws E-PLAN-CHANGED if a library chose another algorithm for a kernel than when the machine was measured; the plan names the
// measured one. Kernels without an entry in the machine's file may have any algorithm.
void require_algorithms(const std::map<std::string, std::string>& planned, const std::map<std::string, std::string>& bound);

}  // namespace plimsoll
