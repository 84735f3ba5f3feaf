// An observer that adds up the seconds of instructions by op. Costs two clock reads per instruction.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "run/executor.h"

namespace plimsoll {

struct OpSeconds {
  std::string op;
  std::int64_t runs = 0;
  double seconds = 0;
  Cost cost;  // of all runs
};

class MeasuredTimeline : public RunObserver {
 public:
  explicit MeasuredTimeline(const Graph& graph) : graph_(graph) {}

  void before(const Instruction& instruction, bool window_start) override;
  void after(const Instruction& instruction, bool window_start) override;
  void clear() { by_op_.clear(); }
  // Slowest first. Matrix products are listed by shape.
  std::vector<OpSeconds> by_op() const;

 private:
  const Graph& graph_;
  std::chrono::steady_clock::time_point start_;
  std::map<std::string, OpSeconds> by_op_;
};

}  // namespace plimsoll
