#include "train/validation_watch.h"

namespace plimsoll {

std::optional<ValidationRise> ValidationWatch::see(std::int64_t update, double loss) {
  if (update == last_update_) return {};
  const bool first = last_update_ < 0;
  rising_ = !first && loss > last_loss_ ? rising_ + 1 : 0;
  if (first || loss < best_loss_) {
    best_update_ = update;
    best_loss_ = loss;
  }
  last_update_ = update;
  last_loss_ = loss;
  if (rising_ != kRising) return {};
  return ValidationRise{best_update_, best_loss_, loss};
}

}  // namespace plimsoll
