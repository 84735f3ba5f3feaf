// Proves a configuration on its own model and data: gradients against finite differences, every way to split the batch, every
// way to plan it, the chosen precision against fp32; and that each of these would notice what it is there for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data/source.h"
#include "train/config.h"
#include "verify/trial.h"

namespace plimsoll::verification {

enum class Outcome : std::uint8_t { passed, failed, skipped };

struct Check {
  std::string subject;  // "gradient", "batch", "bits", "precision", "rounding", "control"
  std::string what;
  std::string found, limit;  // as text, units included; found of what was skipped: why
  Outcome outcome = Outcome::passed;
  std::string command;  // that shows it; empty where none alone does
};

struct Verdict {
  std::int64_t samples = 0, context = 0;            // of a window, in all of these runs
  std::string compute, gradients, optimizer_state;  // "bf16"
  std::vector<Check> checks;

  bool passed() const;
  nlohmann::json to_json() const;
};

// `data`: what the configuration trains on, of which a short part is used. `folder` takes the runs, a few times the bytes of the
// model and its state, and keeps that part of the data, so that the commands of checks can be run again. `tell` hears each run,
// `hear` each check.
Verdict verify_training(const Config& config, const TokenFile& data, const std::filesystem::path& folder,
                        const std::function<void(const std::string&)>& tell, const std::function<void(const Check&)>& hear);

}  // namespace plimsoll::verification
