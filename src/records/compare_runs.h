// The comparison of runs: the settings, data, weights, machine and plan in which they differ, and their figures at the end.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "records/run_reader.h"

namespace plimsoll {

// A fact in which the runs differ. Values are in the order of the runs: JSON text; absent where a run lacks the fact.
struct RunDifference {
  std::string key;  // of the configuration, or "data.samples", "base.weights", "machine.processor", "plan.micro_batch"
  std::vector<std::optional<std::string>> values;
};

struct RunFigure {
  std::string key;
  std::vector<std::optional<double>> values;
};

// True if numbers of all runs mean the same; otherwise `why` says what differs.
struct Comparable {
  bool same = true;
  std::string why;
};

struct RunComparison {
  std::vector<RunDifference> differences;
  std::vector<RunFigure> figures;
  Comparable validation;  // losses on the same samples
  Comparable training;    // losses over the same trained tokens, without other terms
};

// Figures of validation are absent unless they are comparable.
RunComparison compare_runs(std::span<const Run> runs);

// Tokens a second over the updates of a run, and the share of that time that it waited for data.
struct RunSpeed {
  std::optional<double> trained, all, wait_share;
};
RunSpeed speed_of(const std::filesystem::path& run);

}  // namespace plimsoll
