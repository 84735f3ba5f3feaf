// What one sees of a training on stderr: one live line on a terminal, plain lines now and then otherwise.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "train/run_folder.h"

namespace plimsoll {

class ProgressLine {
 public:
  ProgressLine(std::int64_t updates, Bytes budget);
  ~ProgressLine();

  void show(const Metrics& metrics);
  // A line that stays, above the live one.
  void say(const std::string& text);

 private:
  void clear();

  std::int64_t updates_;
  Bytes budget_;
  bool live_, colour_;
  bool drawn_ = false;
  double last_plain_ = 0;
  double mean_seconds_ = 0, mean_loss_ = 0;
};

}  // namespace plimsoll
