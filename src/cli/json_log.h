// A training on stderr as JSON objects, one a line, for `train --log-format json`: progress at the pace of a plain log, events,
// and notes. report_failure adds the error. Every object has its "event" and "time" (UTC seconds).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>

#include "cli/progress.h"
#include "cli/run_commands.h"
#include "records/run_report.h"
#include "session/events.h"

namespace plimsoll {

class JsonLog final : public Consumer {
 public:
  // `report` belongs to a consumer that sees events first. References outlive this.
  JsonLog(const RunReport& report, std::filesystem::path folder) : report_(report), folder_(std::move(folder)) {}

  void see(const Event& event) override;

 private:
  void plan(const Planned& planned);
  void progress(const Metrics& metrics);
  void finish(const Finished& finished) const;

  const RunReport& report_;
  std::filesystem::path folder_;
  RemainingTime remaining_;
  PlainPace pace_;
  double mean_seconds_ = 0;
};

}  // namespace plimsoll
