// Trials of verify (trials/trial.h): files, a disk or a system that fail say nothing about the trainer, and end verify.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "config/config.h"
#include "trials/trial.h"

namespace plimsoll::verification {

class CheckedTrials {
 public:
  CheckedTrials(const Config& config, std::filesystem::path folder, std::function<void(const std::string&)> tell);

  // Trials::run(), but throws the trial's own error for failures of files, disk or system, or of a launcher.
  Trial run(const TrialRequest& request);
  nlohmann::json plan(const TrialRequest& request);
  static void forget(const Trial& trial) { Trials::forget(trial); }

 private:
  Trials trials_;
};

}  // namespace plimsoll::verification
