// The progress of a training on stderr. A terminal shows one live line, and keeps some of its states above it. A log gets plain
// lines at intervals.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "config/config.h"
#include "train/metrics.h"

namespace plimsoll {

// The facts of a progress line in addition to the metrics of an update.
struct ProgressFacts {
  std::int64_t updates = 0;  // length of the run
  Bytes budget;
  double mean_seconds = 0, mean_loss = 0;
  double seconds_left = 0;
  std::string rate = {};  // the unit of speeds, for data without tokens
};

// One line of at most `columns` characters. A narrow terminal keeps update, loss, speed, memory and the remaining time longest.
std::string progress_text(const Metrics& metrics, const ProgressFacts& facts, int columns);

// The remaining time of a run: updates, evaluations and saves. The duration of an evaluation or a save is the planned one at
// first, then the last measured one.
struct RemainingTime {
  std::int64_t updates = 0;  // updates of the run
  bool evaluates = false;    // true: evaluations run, the last one at the end
  std::int64_t evaluate_every = 0;
  SaveInterval save_every;
  double evaluation_seconds = 0, save_seconds = 0;

  // The remaining seconds after an update, before the evaluation and save of that update.
  double after(std::int64_t update, double update_seconds) const;
};

// The planned duration of evaluations and saves.
RemainingTime planned_time(const Config& config, const nlohmann::json& plan);
// Takes the seconds of an evaluation and of a save from a plan; 0 if it lacks them.
void take_times(RemainingTime& remaining, const nlohmann::json& plan);

// The pace of a log: the first update, the last one, and at most one per ten seconds and per hundredth of the run.
class PlainPace {
 public:
  bool due(std::int64_t update, std::int64_t updates);

 private:
  double last_shown_ = 0;
  std::int64_t last_update_ = 0;
};

// "850 ms", "12 s", "3m05s", "2h07m".
std::string duration_text(double seconds);
// "3680", "98.8k", "1.2M".
std::string rate_text(double per_second);
// "340 trained tok/s, 1.1k of all tokens"; the first part alone if all tokens are trained on. `rate`: the unit of data without
// tokens ("img/s"), which are all trained on.
std::string trained_rate_text(double trained_per_second, double all_per_second, std::string_view rate = {});

// The progress of a long evaluation: a line every ten seconds.
class EvaluationProgress {
 public:
  template <class Say>
  void show(std::int64_t done, std::int64_t samples, Say say) {
    const std::string line = next(done, samples);
    if (!line.empty()) say(line);
  }

 private:
  // The next line; "" if it is too early.
  std::string next(std::int64_t done, std::int64_t samples);

  double begun_ = -1, shown_ = 0;
};

class ProgressLine {
 public:
  // `rate`: see ProgressFacts.
  ProgressLine(const RemainingTime& remaining, Bytes budget, std::string rate = {});
  ~ProgressLine();

  void show(const Metrics& metrics);
  void evaluated(double seconds) { remaining_.evaluation_seconds = seconds; }
  void saved(double seconds) { remaining_.save_seconds = seconds; }
  // Prints a permanent line above the live one.
  void say(const std::string& text);

 private:
  void draw();
  void keep(const std::string& text, std::int64_t update, double time);

  RemainingTime remaining_;
  Bytes budget_;
  std::string rate_;
  bool live_, colour_;
  std::string line_;  // the live line; empty: none is drawn
  double last_shown_ = 0, last_kept_ = 0;
  std::int64_t kept_update_ = 0;
  std::int64_t last_update_ = 0;
  double mean_seconds_ = 0, mean_loss_ = 0;
};

}  // namespace plimsoll
