// What verify found, check by check.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

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
  std::int64_t samples = 0, context = 0;                        // of a window, in all of these runs
  std::string compute, parameters, gradients, optimizer_state;  // "bf16"
  std::vector<Check> checks;

  // Nothing failed, and more than nothing ran: a budget may leave no room for any of it.
  bool passed() const;
  nlohmann::json to_json() const;
};

}  // namespace plimsoll::verification
