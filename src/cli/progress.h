// What one sees of a training on stderr: one live line on a terminal, of which some stay for who scrolls back; plain lines now
// and then otherwise.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "train/metrics.h"

namespace plimsoll {

// One line of at most `columns` characters. Update, loss, speed, memory and the time that is left stay longest on a narrow
// terminal.
std::string progress_text(const Metrics& metrics, std::int64_t updates, Bytes budget, double mean_seconds, double mean_loss,
                          int columns);

// "850 ms", "12 s", "3m05s", "2h07m".
std::string duration_text(double seconds);
// "3680", "98.8k", "1.2M".
std::string rate_text(double per_second);

// Of a long evaluation: a line every ten seconds.
class EvaluationProgress {
 public:
  template <class Say>
  void show(std::int64_t done, std::int64_t samples, Say say) {
    const std::string line = next(done, samples);
    if (!line.empty()) say(line);
  }

 private:
  // "" where it is too early.
  std::string next(std::int64_t done, std::int64_t samples);

  double begun_ = -1, shown_ = 0;
};

class ProgressLine {
 public:
  ProgressLine(std::int64_t updates, Bytes budget);
  ~ProgressLine();

  void show(const Metrics& metrics);
  // A line that stays, above the live one.
  void say(const std::string& text);

 private:
  void draw();
  void keep(const std::string& text, std::int64_t update, double time);

  std::int64_t updates_;
  Bytes budget_;
  bool live_, colour_;
  std::string line_;  // the live one; empty: none is drawn
  double last_shown_ = 0, last_kept_ = 0;
  std::int64_t kept_update_ = 0;
  std::int64_t last_update_ = 0;
  double mean_seconds_ = 0, mean_loss_ = 0;
};

}  // namespace plimsoll
