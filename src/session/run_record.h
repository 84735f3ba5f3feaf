// The records of a whole run in its folder: the settings, the configuration, the plan, and run.json, which is written at the
// begin and at the end.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "records/run_report.h"
#include "session/events.h"

namespace plimsoll {

class RunFolder;

class RunRecord final : public Consumer {
 public:
  explicit RunRecord(RunFolder& folder) : folder_(folder) {}

  void see(const Event& event) override;
  const RunReport& report() const { return report_; }

 private:
  void begin(const Begins& begins) const;
  void keep_shape(const Config& config) const;
  nlohmann::json earlier_segments() const;
  void evaluated(const Evaluation& evaluation);
  void finish(const Finished& finished);
  void end();
  void fail(const Failed& failed);

  RunFolder& folder_;
  RunReport report_;
  bool begun_ = false, saved_ = false, saved_best_ = false;
};

}  // namespace plimsoll
