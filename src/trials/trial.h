// Runs of this program in processes of their own, one at a time: `plimsoll train` on a configuration with some changed keys, and
// its results. Commands that compare trainings thus see what users run, under their budgets.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/remedy.h"
#include "config/config.h"
#include "records/checkpoints.h"
#include "train/metrics.h"
#include "trials/process.h"
#include "weights/checkpoint.h"

namespace plimsoll {

struct TrialRequest {
  std::string name;
  Changes changes;                   // of the configuration
  std::vector<std::string> options;  // "--disk", "pages:1GiB"
  int updates = 1;                   // number of updates of a training
  int ranks = 1;                     // processes of it
  double most_seconds = 0;           // of its life; 0: no limit
  std::optional<Bytes> shared;       // a budget for this process and the trial together; the trial gets what this one leaves
  // Sees each line of metrics.jsonl soon after it is written; true asks the trial to stop. If a resume cuts lines that it has
  // seen, it sees all of them again, from the first one.
  std::function<bool(const Metrics&)> follow;
};

struct Trial {
  std::filesystem::path folder;
  std::string command;  // for a shell
  int exit_code = 0;
  ProcessEnd::Asked asked = ProcessEnd::Asked::no;  // the reason of a request to stop
  bool forced = false;                              // ended by SIGKILL
  double seconds = 0;
  std::string said;                // first line of an error, including plans that do not fit and divergence
  std::optional<Bytes> shortfall;  // of a plan that does not fit, where --json is among the options
  std::vector<Metrics> updates;    // whole lines, also of a trial that failed
  std::vector<Evaluation> evaluations;

  bool ran() const { return exit_code == 0; }
  bool fits() const;         // false: refused for its bytes
  std::string code() const;  // "E-PLAN-FIT"; empty without an error that has one
  // The end of the run; only `diverged` and `failed` say something about the trainer. `stopped`: by `follow` or for its time.
  enum class End : std::uint8_t { ran, stopped, no_room, refused, diverged, broken, failed };
  End end() const;
  // The folder of the last checkpoint; that of the run if there is none.
  std::filesystem::path saved() const {
    const std::vector<KeptCheckpoint> kept = checkpoints_in(folder);
    return kept.empty() ? folder : kept.back().path;
  }
  // The file with the tensors of the last checkpoint.
  std::filesystem::path checkpoint() const {
    const std::filesystem::path last = saved();
    return last == folder ? folder : state_file(last);
  }
  std::filesystem::path weights() const { return folder / "weights"; }
};

// The part of a budget that this process leaves to another: the budget less its resident bytes and a reserve for their growth. 0
// if nothing is left.
Bytes left_by_this_process(Bytes budget);

// The place of trials, and their program.
struct TrialPlace {
  std::filesystem::path folder;  // of their runs, which replace files with their names
  std::string command;           // of this program, for its errors: "verify"
  std::filesystem::path program = ProcessRequest{}.program;
  double patience = kPatience;
};

class Trials {
 public:
  // Trials of a configuration. `tell` gets the name of each run in advance. During this object's life a stop signal ends the
  // present trial and then all of them.
  Trials(const Config& config, TrialPlace place, std::function<void(const std::string&)> tell);

  // Trains in a new folder of that name, or with --resume in the existing one. A trial that is refused, fails or is stopped is a
  // result. Throws E-INTERRUPTED on the user's request, and errors of run_process().
  Trial run(const TrialRequest& request);
  // Runs `plimsoll plan --json`; throws its error.
  nlohmann::json plan(const TrialRequest& request);
  // Removes the files of a trial.
  static void forget(const Trial& trial);

 private:
  struct Ended {
    ProcessEnd process;
    std::string out, error;  // error: its first line
    std::string command;
  };
  // `command`: its words in front of the configuration.
  Ended start(const std::vector<std::string>& command, const TrialRequest& request, const std::vector<std::string>& more,
              std::function<bool()> look);

  TrialPlace place_;
  std::filesystem::path config_;  // the full configuration, for all trials
  std::function<void(const std::string&)> tell_;
  StopRequests signals_;
};

}  // namespace plimsoll
