// Whether single layers still learn as they should: by how much updates change each parameter, whether it gets a gradient, and
// how much of their gradients fp16 cannot hold.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autodiff/precision.h"
#include "autodiff/training.h"
#include "graph/graph.h"

namespace plimsoll {

// What is said once of each reason and name: from this update on, as it was in so many in a row.
struct GroupWarning {
  std::string reason;              // UPDATE_RATIO, DEAD_GRADIENT, UNDERFLOW
  std::vector<std::string> names;  // of parameters, or of gradients within the model
  double most = 0;                 // the largest ratio, or share, of them
  std::string text;                // what it means, for a reader
};

// - UPDATE_RATIO: behind the warm-up and the first 32 updates, 20 updates in a row changed a matrix by more than a tenth of its
//   size, in the root mean square.
// - DEAD_GRADIENT: 50 gradients of a parameter in a row were zero in all elements.
// - UNDERFLOW: in 20 updates in a row more than a twentieth of a gradient in fp16, zeros apart, was subnormal while the loss
// scale
//   could have been larger. Zeros say nothing: dropout makes them, too.
//
// In a run that was resumed it counts from there on, and does not repeat what was told.
class GroupWatch {
 public:
  struct Group {
    std::string name;
    bool matrix = true;
  };
  GroupWatch(std::vector<Group> parameters, std::vector<std::string> gradients, std::int64_t warmup_updates);

  // `report`: as TrainingValues::report, for the parameters of the constructor. Updates are counted from 1, and come in this
  // order.
  std::vector<GroupWarning> see(std::int64_t update, std::span<const double> report);
  // `counts`: as UnderflowMeter::report; `scale`: of the loss.
  std::vector<GroupWarning> see_small(std::span<const double> counts, double scale);

  // This was said before.
  void was_told(const std::string& reason, const std::string& name);

  // sqrt(sum of squares of all steps / of all parameters).
  static double update_ratio(std::span<const double> report);
  // The largest share of subnormal numbers among those of a gradient that are not zero.
  static double underflow(std::span<const double> counts);

 private:
  struct Streak {
    int updates = 0;
    bool told = false;
    // Whether the limit is reached now, for the first time.
    bool add(bool bad, int limit);
  };

  std::vector<Group> parameters_;
  std::vector<std::string> gradients_;
  std::int64_t warmup_;
  std::vector<Streak> large_, dead_, small_;
};

// Of the parameters that are reported, and the gradients in fp16.
GroupWatch group_watch(const Graph& graph, const TrainingValues& training, const std::optional<UnderflowMeter>& underflow,
                       std::int64_t warmup_updates);

}  // namespace plimsoll
