// Running statistics of batch normalisation that go wrong on purpose, for verify (train/faults.h). The sums and the statistics
// are changed between the runs of sections; the program stays as it is.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "run/executor.h"
#include "train/faults.h"

namespace plimsoll {

class WrongStatistics {
 public:
  // config_error E-USAGE if no statistics move, or a window has one micro-step (`rounds`), so that the fault is none.
  WrongStatistics(StatisticsFault fault, const Graph& graph, std::int64_t rounds, Executor& executor);

  // Called after each micro-step, and before the update section.
  void after_micro(bool first);
  void before_update();

 private:
  struct Layer {
    ValueId mean, variance, sums;
    std::int64_t channels = 0;
    double momentum = 0;
    std::vector<double> before;  // the sums before the micro-step
  };
  void move(const Layer& layer);

  StatisticsFault fault_;
  Executor& executor_;
  std::vector<Layer> layers_;
};

}  // namespace plimsoll
