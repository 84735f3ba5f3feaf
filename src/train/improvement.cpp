#include "train/improvement.h"

#include <algorithm>
#include <cmath>

namespace plimsoll {

bool SinceImproved::see(const Evaluation& evaluation, double number) {
  const bool anew = units_ != evaluation.units;
  last_ = evaluation.update;
  if (anew) units_ = evaluation.units, has_best_ = false, since_ = last_;
  if (std::isnan(number) || (has_best_ && !(number < best_ - least_))) return false;
  has_best_ = true;
  best_ = number;
  since_ = last_;
  return true;
}

ImprovementWatch::ImprovementWatch(const Config& config)
    : accuracy_(config.stop.metric == StopMetric::accuracy),
      patience_(in_updates(config.stop.patience, run_length(config))),
      stopping_(config.stop.min_delta),
      ranked_(static_cast<std::size_t>(config.save.keep_best)) {
  if (config.schedule.kind != ScheduleKind::plateau) return;
  plateau_ = config.schedule;
  plateau_patience_ = in_updates(config.schedule.patience, run_length(config));
}

// Lower is better.
double ImprovementWatch::number_of(const Evaluation& evaluation) const {
  if (!accuracy_) return evaluation.loss;
  return evaluation.accuracy ? -evaluation.accuracy->top1 : std::nan("");
}

void ImprovementWatch::rank(const Evaluation& evaluation) {
  if (!ranking_.empty() && ranking_.front().units != evaluation.units) ranking_.clear();
  const double number = number_of(evaluation);
  if (std::isnan(number)) return;
  const auto place = std::ranges::upper_bound(ranking_, number, {}, [&](const Evaluation& each) { return number_of(each); });
  ranking_.insert(place, evaluation);
  if (ranking_.size() > ranked_) ranking_.pop_back();
}

bool ImprovementWatch::see(const Evaluation& evaluation) {
  if (evaluation.update == last_update_ && evaluation.units == last_units_) return false;
  last_update_ = evaluation.update;
  last_units_ = evaluation.units;
  const double number = number_of(evaluation);
  const bool better = lowest_.see(evaluation, number);
  if (better) best_ = evaluation;
  stopping_.see(evaluation, number);
  rank(evaluation);
  if (plateau_ && !falling_.see(evaluation, evaluation.loss) && falling_.updates() >= plateau_patience_) {
    ++falls_;
    falling_.restart();
  }
  return better;
}

double ImprovementWatch::rate_factor() const {
  if (!plateau_) return 1;
  return std::max(plateau_->final_fraction, std::pow(plateau_->factor, static_cast<double>(falls_)));
}

}  // namespace plimsoll
