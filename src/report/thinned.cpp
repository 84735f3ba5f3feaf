#include "report/thinned.h"

#include <cmath>

namespace plimsoll {

void Thinned::add(double x, double y) {
  if (!std::isfinite(y)) {
    if (left_out_++ == 0) first_left_out_ = x;
    return;
  }
  last_ = {x, y};
  if (stretches_.empty()) first_ = last_;
  if (stretches_.empty() || filled_ == length_) {
    if (stretches_.size() == most_) {
      std::size_t kept = 0;
      for (std::size_t i = 0; i < stretches_.size(); i += 2, ++kept) {
        Stretch joined = stretches_[i];
        if (i + 1 < stretches_.size()) {
          const Stretch& next = stretches_[i + 1];
          if (next.least.y < joined.least.y) joined.least = next.least;
          if (next.greatest.y > joined.greatest.y) joined.greatest = next.greatest;
        }
        stretches_[kept] = joined;
      }
      const bool half = stretches_.size() % 2 == 1;  // the last stretch has had no partner
      stretches_.resize(kept);
      filled_ = half ? length_ : 2 * length_;
      length_ *= 2;
    }
    if (filled_ == length_ || stretches_.empty()) {
      stretches_.push_back({last_, last_});
      filled_ = 1;
      return;
    }
  }
  Stretch& stretch = stretches_.back();
  if (y < stretch.least.y) stretch.least = last_;
  if (y > stretch.greatest.y) stretch.greatest = last_;
  ++filled_;
}

std::vector<DataPoint> Thinned::points() const {
  std::vector<DataPoint> all;
  const auto add = [&](const DataPoint& point) {
    if (all.empty() || point.x > all.back().x) all.push_back(point);
  };
  if (!stretches_.empty()) add(first_);
  for (const Stretch& stretch : stretches_) {
    const bool rises = stretch.least.x < stretch.greatest.x;
    add(rises ? stretch.least : stretch.greatest);
    add(rises ? stretch.greatest : stretch.least);
  }
  if (!stretches_.empty()) add(last_);
  return all;
}

Smoothed::Smoothed(double half_life) : keep_(std::exp2(-1 / (half_life > 0 ? half_life : 1))) {}

double Smoothed::add(double value) {
  sum_ = keep_ * sum_ + (1 - keep_) * value;
  weight_ = keep_ * weight_ + (1 - keep_);
  return sum_ / weight_;
}

}  // namespace plimsoll
