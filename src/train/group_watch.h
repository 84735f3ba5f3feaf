// Checks that single layers learn: the size of each parameter's changes, the presence of its gradient, and the share of gradients
// that fp16 cannot hold.
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

// A warning, given once for each reason and name, at the update that completes the streak.
struct GroupWarning {
  std::string reason;              // UPDATE_RATIO, DEAD_GRADIENT, UNDERFLOW
  std::vector<std::string> names;  // of parameters, or of gradients in the model
  double most = 0;                 // the largest ratio or share among them
  std::string text;                // the meaning, for people
};

// - UPDATE_RATIO: 20 updates in a row, after the warm-up and the first 32, changed a matrix by more than a tenth of its size
//   (root mean squares).
// - DEAD_GRADIENT: 50 gradients of a parameter in a row were zero in all elements.
// - UNDERFLOW: in 20 updates in a row more than a twentieth of a gradient's nonzero fp16 numbers was subnormal, while the loss
//   scale could have been larger. Zeros do not count, since dropout makes them, too.
//
// A resumed run counts from its start and does not repeat warnings.
class GroupWatch {
 public:
  struct Group {
    std::string name;
    bool matrix = true;
  };
  GroupWatch(std::vector<Group> parameters, std::vector<std::string> gradients, std::int64_t warmup_updates);

  // `report`: TrainingValues::report, for the parameters of the constructor. Updates are counted from 1 and come in order.
  std::vector<GroupWarning> see(std::int64_t update, std::span<const double> report);
  // `counts`: UnderflowMeter::report; `scale`: loss scale.
  std::vector<GroupWarning> see_small(std::span<const double> counts, double scale);

  // Marks a warning as given.
  void was_told(const std::string& reason, const std::string& name);

  // sqrt(sum of squares of all steps / sum of squares of all parameters).
  static double update_ratio(std::span<const double> report);
  // The largest share of subnormal numbers among the nonzero ones of a gradient.
  static double underflow(std::span<const double> counts);

 private:
  struct Streak {
    int updates = 0;
    bool told = false;
    // Returns true when the limit is reached for the first time.
    bool add(bool bad, int limit);
  };

  std::vector<Group> parameters_;
  std::vector<std::string> gradients_;
  std::int64_t warmup_;
  std::vector<Streak> large_, dead_, small_;
};

// A watch of the reported parameters and the gradients in fp16.
GroupWatch group_watch(const Graph& graph, const TrainingValues& training, const std::optional<UnderflowMeter>& underflow,
                       std::int64_t warmup_updates);

}  // namespace plimsoll
