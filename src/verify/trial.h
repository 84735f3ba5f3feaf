// Runs of this program in processes of their own: `plimsoll train` on the user's configuration with some changed keys, and its
// results. Checks thus see what users run, under their budgets.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/remedy.h"
#include "config/config.h"
#include "records/checkpoints.h"
#include "weights/checkpoint.h"

namespace plimsoll::verification {

struct TrialRequest {
  std::string name;
  Changes changes;                   // of the configuration
  std::vector<std::string> options;  // "--memory", "1GiB"
  int updates = 1;                   // number of updates of a training
  int ranks = 1;                     // processes of it
};

struct TrialUpdate {
  double loss = 0, gradient_norm = 0, learning_rate = 0;
  std::string loss_bits;
};

struct Trial {
  std::filesystem::path folder;
  std::string command;  // for a shell
  int exit_code = 0;
  std::string said;  // first line of an error, including plans that do not fit and divergence
  std::vector<TrialUpdate> updates;

  bool ran() const { return exit_code == 0; }
  bool fits() const;  // false: refused for its bytes
  // The end of the run; only `diverged` and `failed` say something about the trainer.
  enum class End : std::uint8_t { ran, no_room, refused, diverged, broken, failed };
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

class Trials {
 public:
  // Trials of a configuration. Runs are below `folder` and replace files with their names. `tell` gets the name of each
  // run in advance. During this object's life an interrupt ends the present trial and then all of them.
  Trials(const Config& config, std::filesystem::path folder, std::function<void(const std::string&)> tell);
  ~Trials();
  Trials(const Trials&) = delete;
  Trials& operator=(const Trials&) = delete;

  // Trains in a new folder of that name, or with --resume in the existing one. Throws E-INTERRUPTED on the user's request, and
  // the trial's own error for failures of files, disk or system, or of a launcher: these say nothing about the trainer.
  Trial run(const TrialRequest& request) const;
  // Runs `plimsoll plan --json`; throws its error.
  nlohmann::json plan(const TrialRequest& request) const;
  // Removes the files of a trial.
  static void forget(const Trial& trial);

 private:
  struct Ended {
    int exit_code = 0;
    std::string out, error;  // error: its first line
    std::string command;
  };
  // `command`: its words in front of the configuration.
  Ended start(const std::vector<std::string>& command, const TrialRequest& request, const std::vector<std::string>& more) const;

  std::filesystem::path folder_, config_;  // the full configuration, for all trials
  std::function<void(const std::string&)> tell_;
};

}  // namespace plimsoll::verification
