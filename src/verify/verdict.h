// The results of verify, check by check.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "config/config.h"

namespace plimsoll::verification {

enum class Outcome : std::uint8_t { passed, failed, skipped };

struct Check {
  std::string subject;  // "gradient", "batch", "bits", "precision", "rounding", "control", "ranks"
  std::string what;
  std::string found, limit;  // as text with units; `found` of a skipped check is the reason
  Outcome outcome = Outcome::passed;
  std::string command;  // command that shows it; empty if no single one does
};

struct Verdict {
  std::int64_t samples = 0, context = 0;                        // size of a window in all of these runs
  std::string compute, parameters, gradients, optimizer_state;  // "bf16"
  std::int64_t stat_batch = 0;  // samples that share the statistics of batch normalisation in all of these runs; 0: none
  int ranks = 1;                // processes that are compared with one
  std::vector<Check> checks;

  // "ghost BN(4)"; "" without batch normalisation.
  std::string norm() const;
  // True if nothing failed and at least one check ran: a budget may leave room for none.
  bool passed() const;
  nlohmann::json to_json() const;
};

// A verdict without checks: context and precision of the configuration.
Verdict verdict_of(const Config& config);

}  // namespace plimsoll::verification
