// Everything that the page tells of a run, read from its folder.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "records/run_reader.h"
#include "report/history.h"
#include "report/plan_facts.h"

namespace plimsoll {

struct ReportedRun {
  Run run;
  std::map<std::string, std::string> settings;  // JSON text by key
  std::string note;
  PlanFacts plan;
  RunHistory history;

  // A setting as text, without quotes; empty if the run lacks it.
  std::string setting(const std::string& key) const;
  std::optional<double> number(const std::string& key) const;
  // The last update that the run is to make; 0 if nobody knows.
  std::int64_t last_update() const;
  // "tokens", or the unit of this kind of data.
  std::string units() const;
};

// E-RUN-MISSING.
ReportedRun read_reported_run(const std::filesystem::path& folder);

}  // namespace plimsoll
