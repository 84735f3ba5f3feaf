// The factor on the loss that keeps fp16 gradients within range (Micikevicius et al., 2018). It is constant within a window. A
// window that overflows changes nothing and is computed again with half the factor.
#pragma once

#include <cstdint>

#include "weights/progress.h"

namespace plimsoll {

struct LossScaleSettings {
  double growth_samples = 0;  // samples without an overflow after which it doubles
};

// - A window that overflows is tried again with half the scale, three times; then it is skipped.
// - One window that needs a lower scale does not lower it for later ones. A second one before the scale has grown does, and so
//   does a skip.
// - The scale doubles after growth_samples without an overflow, up to 2^24.
// - Training is hopeless if three windows in a row overflowed and ended with a scale below 1, or if more than a tenth of the last
//   200 windows were skipped.
class LossScale {
 public:
  enum class Next : std::uint8_t { update, replay, skip };
  static constexpr double kMost = 0x1p24;

  LossScale(const LossScaleSettings& settings, const LossScaleState& state)
      : settings_(settings), state_(state), scale_(state.scale) {}

  // The scale of the current window.
  double scale() const { return scale_; }
  // Called after each try of a window; returns the next step. `finite`: the gradient was finite.
  Next tried(bool finite, std::int64_t samples);
  bool hopeless() const;
  const LossScaleState& state() const { return state_; }

 private:
  void close(bool skipped);

  LossScaleSettings settings_;
  LossScaleState state_;
  double scale_;
  int retries_ = 0;
};

}  // namespace plimsoll
