// The report of a training on stderr: the plan, the progress line, notes, evaluations, and the result.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "cli/patience.h"
#include "cli/progress.h"
#include "cli/run_commands.h"
#include "records/run_report.h"
#include "session/events.h"

namespace plimsoll {

class TrainWatcher final : public Consumer {
 public:
  // `report` belongs to a consumer that sees events first. References outlive this.
  TrainWatcher(const RunReport& report, const RunCommands& commands) : report_(report), commands_(commands) {}

  void see(const Event& event) override;

 private:
  // Prints a permanent line above the live one.
  void say(const std::string& text);
  void plan(const Planned& planned);
  void show(const Updated& updated);
  void show(const Overflow& overflow);
  void show(const Evaluation& evaluation);
  void show(std::span<const Answer> answers);
  void summarise(const Finished& finished) const;

  std::optional<Patience> patience_{std::in_place, "planning"};
  const RunReport& report_;
  const RunCommands& commands_;
  RemainingTime remaining_;  // remaining time at the start of the run
  std::string rate_;         // the unit of speeds, for data without tokens
  std::optional<ProgressLine> line_;
  std::int64_t units_ = 0, positions_ = 0;  // totals over the updates of this process
  double paused_seconds_ = 0;               // seconds of evaluations and saves of this process
  std::optional<EvaluationProgress> evaluating_;
};

}  // namespace plimsoll
