// Watches the losses of evaluations for a rise: the model begins to memorise its data.
#pragma once

#include <cstdint>
#include <optional>

namespace plimsoll {

struct ValidationRise {
  std::int64_t best_update = 0;  // of all evaluations so far
  double best_loss = 0, loss = 0;
};

class ValidationWatch {
 public:
  static constexpr int kRising = 3;  // evaluations in a row, each with a larger loss than the one before

  // Returns the rise that an evaluation completes. The next rise counts only after a fall. A second evaluation at an update,
  // possible in a resumed run, does not count.
  std::optional<ValidationRise> see(std::int64_t update, double loss);

 private:
  std::int64_t last_update_ = -1, best_update_ = 0;
  double last_loss_ = 0, best_loss_ = 0;
  int rising_ = 0;
};

}  // namespace plimsoll
