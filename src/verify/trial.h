// Runs of this very program, each in a process of its own: `plimsoll train` on the user's configuration with some keys changed,
// and what it left behind. So what is compared is what users run, under the budgets that they gave.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "config/config.h"

namespace plimsoll::verification {

struct TrialRequest {
  std::string name;
  std::vector<std::string> sets;     // "train.updates=2", over the configuration's
  std::vector<std::string> options;  // "--memory", "1GiB"
  int updates = 1;                   // of a training
};

struct TrialUpdate {
  double loss = 0, gradient_norm = 0, learning_rate = 0;
  std::string loss_bits;
};

struct Trial {
  std::filesystem::path folder;
  std::string command;  // for a shell
  int exit_code = 0;
  std::string said;  // the first line of an error; what does not fit and diverges included
  std::vector<TrialUpdate> updates;

  bool ran() const { return exit_code == 0; }
  bool fits() const;  // false: refused for its bytes
  // What its end says, where it did not run: of the trainer alone `diverged` and `failed` say something.
  enum class End : std::uint8_t { ran, no_room, refused, diverged, broken, failed };
  End end() const;
  std::filesystem::path checkpoint() const { return folder / "checkpoint.safetensors"; }
  std::filesystem::path weights() const { return folder / "weights"; }
};

class Trials {
 public:
  // Of this configuration. Runs are below `folder`, where what has the name of a trial goes. `tell` hears what is about to run.
  // While this lives, an interrupt ends the present trial and then all of them.
  Trials(const Config& config, std::filesystem::path folder, std::function<void(const std::string&)> tell);
  ~Trials();
  Trials(const Trials&) = delete;
  Trials& operator=(const Trials&) = delete;

  // Trains in a new folder of that name, or with --resume in the one that is there. Throws E-INTERRUPTED where the user stops it,
  // and what the trial said where files, the disk or the system failed it: that proves nothing about the trainer.
  Trial run(const TrialRequest& request) const;
  // `plimsoll plan --json`. Where that fails, throws as it did.
  nlohmann::json plan(const TrialRequest& request) const;
  // Removes what a trial left behind.
  static void forget(const Trial& trial);

 private:
  struct Ended {
    int exit_code = 0;
    std::string out, error;  // error: its first line
    std::string command;
  };
  Ended start(const std::string& command, const TrialRequest& request, const std::vector<std::string>& more) const;

  std::filesystem::path folder_, config_;  // the configuration with every key, for all trials
  std::function<void(const std::string&)> tell_;
};

}  // namespace plimsoll::verification
