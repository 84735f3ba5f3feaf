// What the page tells of a run's plan.json. The file is hostile: members of another kind count as absent.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"

namespace plimsoll {

struct NamedBytes {
  std::string name;
  std::int64_t bytes = 0;
};

struct PlannedPhase {
  std::string name;
  Bytes live, arena;
  std::vector<NamedBytes> owners;
};

// Bytes of the first tier by owner, from step to step.
struct PlannedSeries {
  std::string phase;
  std::vector<double> steps;
  std::vector<std::pair<std::string, std::vector<double>>> owners;
};

struct PlanFacts {
  bool found = false;
  std::string model, rate;  // the model in words; the unit of a rate: empty for tokens
  std::string tier;         // the name of the first one
  std::optional<double> update_seconds, tokens_per_second, evaluation_seconds, save_seconds;
  std::optional<std::int64_t> updates, parameters;
  std::optional<double> epochs;
  std::optional<Bytes> memory, process, floor, knee, ceiling;
  std::vector<NamedBytes> reserve, tiers, run_folder;
  std::vector<PlannedPhase> phases;
  std::vector<PlannedSeries> timeline;
  std::map<std::string, std::int64_t> modes;  // blocks by kind of recomputation
};

PlanFacts read_plan_facts(const std::filesystem::path& run);

}  // namespace plimsoll
