// The decisions that follow from evaluations: the best weights, early stopping, the rate of the schedule "plateau". A resumed run
// shows the lines of eval.jsonl again, in their order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "config/config.h"
#include "train/metrics.h"

namespace plimsoll {

// Updates since a number last improved. Evaluations with other units are not compared: the first of them begins anew.
class SinceImproved {
 public:
  // `least`: an improvement lies more than this below the last one.
  explicit SinceImproved(double least = 0) : least_(least) {}

  // Returns true if the number improves. The first one does; NaN never does.
  bool see(const Evaluation& evaluation, double number);
  // The updates between the last improvement, or the last restart, and the last evaluation.
  std::int64_t updates() const { return last_ - since_; }
  void restart() { since_ = last_; }

 private:
  double least_, best_ = 0;
  bool has_best_ = false;
  std::int64_t units_ = -1, since_ = 0, last_ = 0;
};

class ImprovementWatch {
 public:
  explicit ImprovementWatch(const Config& config);

  // Returns true if the evaluation is the best so far. A second one of the same size at an update, possible in a resumed run,
  // does not count.
  bool see(const Evaluation& evaluation);
  // The evaluation with the lowest loss, or the highest accuracy. Of equal ones the first.
  const std::optional<Evaluation>& best() const { return best_; }
  // The best `save.keep_best` evaluations, the best first.
  std::span<const Evaluation> ranking() const { return ranking_; }
  bool ranks(std::int64_t update) const { return std::ranges::find(ranking_, update, &Evaluation::update) != ranking_.end(); }
  std::int64_t last_update() const { return last_update_; }
  // The updates since the last improvement by `stop.min_delta`.
  std::int64_t stalled() const { return stopping_.updates(); }
  // True after an evaluation `stop.patience` or more updates after the last improvement by `stop.min_delta`.
  bool stops() const { return patience_ > 0 && stopping_.updates() >= patience_; }
  // The factor of the rate for the schedule "plateau"; 1 for others.
  double rate_factor() const;

 private:
  void rank(const Evaluation& evaluation);
  double number_of(const Evaluation& evaluation) const;

  bool accuracy_;
  std::int64_t patience_;
  std::optional<Schedule> plateau_;
  std::int64_t plateau_patience_ = 0, falls_ = 0, last_update_ = -1, last_units_ = -1;
  SinceImproved lowest_, stopping_, falling_;
  std::optional<Evaluation> best_;
  std::size_t ranked_;
  std::vector<Evaluation> ranking_;
};

}  // namespace plimsoll
