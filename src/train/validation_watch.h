// Watches the losses of evaluations for a rise: the model learns its data by heart, and what it has learned beyond them is lost.
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
  static constexpr int kRising = 3;  // evaluations in a row, each with a greater loss than the one before

  // The rise that a further evaluation shows. A rise is told once: the loss has to fall before another one begins. A second
  // evaluation at an update, as a run that goes on may make, does not count.
  std::optional<ValidationRise> see(std::int64_t update, double loss);

 private:
  std::int64_t last_update_ = -1, best_update_ = 0;
  double last_loss_ = 0, best_loss_ = 0;
  int rising_ = 0;
};

}  // namespace plimsoll
