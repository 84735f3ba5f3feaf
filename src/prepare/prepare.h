// Everything before the first step that needs memory of its own - measuring the machine, tokenising, planning - runs here, in a
// child process, and hands back a small record. The process that trains rebuilds the same plan from it.
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
#include "prepare/plan_json.h"
#include "prepare/setup.h"
#include "prepare/token_place.h"

namespace plimsoll {

using Say = std::function<void(const std::string&)>;

struct Prepared {
  PlanRecord record;
  Machine machine;
  std::map<std::string, std::string> algorithms;  // as its file has them
  TokenFilePlace train;
  std::optional<TokenFilePlace> validation;
  std::string data_hash;
  std::optional<RaggedWindows> ragged;
  std::string plan_text;  // the plan's JSON
  Budget budget;          // what was planned for: the request, or what the machine has
};

// A plan that does not fit, as JSON with remedies.
struct Refused {
  std::string plan_text;
};

struct PrepareOptions {
  std::optional<MachineRecord> machine;     // that the plan is for; absent: this one
  Probe probe;                              // of this one, where no file has it
  std::filesystem::path cache;              // for machine files and tokens
  std::filesystem::path plan_file;          // replay this plan; empty: plan anew
  std::optional<std::int64_t> micro_batch;  // of the run that is resumed
  std::filesystem::path runs = ".";         // the folder that the run folder lies in
  std::filesystem::path tokens;             // for them where the cache cannot be written; empty: nowhere
  std::filesystem::path weights_folder;     // of the run: what its weights need beside them goes there; empty: it does not
  bool resumes = false;                     // what is there stays
  std::optional<RunSettings> settings;      // that the configuration was made of
  std::function<bool()> stopped;            // asked while planning: E-INTERRUPTED once it says so
  std::function<void(const nlohmann::json& plan)> decided;  // of a refusal, in the child that plans, before remedies are sought
};

std::variant<Prepared, Refused> prepare_training(const Config& config, const PrepareOptions& options, const Say& say);

DataFiles open_data(const Prepared& prepared);

// Rebuilds the plan that prepare_training decided, in this process.
Plan rebuild_plan(const Config& config, const TrainingGraph& model, const Prepared& prepared);

// Throws E-PLAN-CHANGED where a library chose another algorithm for a kernel than it did when the machine was measured: the plan
// names that one. What the machine's file lacks may be anything.
void require_algorithms(const std::map<std::string, std::string>& planned, const std::map<std::string, std::string>& bound);

}  // namespace plimsoll
