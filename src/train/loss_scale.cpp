#include "train/loss_scale.h"

#include <algorithm>

namespace plimsoll {
namespace {

constexpr int kMostRetries = 3;
constexpr std::int64_t kHysteresis = 2;  // windows that overflow before the scale stays low
constexpr double kLeastScale = 0x1p-24;
constexpr std::int64_t kMostLow = 3, kMostSkipped = LossScaleState::kRecent / 10;

}  // namespace

void LossScale::close(bool skipped) {
  state_.low_windows = scale_ < 1 && retries_ > 0 ? state_.low_windows + 1 : 0;
  retries_ = 0;
  state_.skipped += skipped ? 1 : 0;
  state_.recent <<= 1;
  state_.recent[0] = skipped;
}

LossScale::Next LossScale::tried(bool finite, std::int64_t samples) {
  if (!finite) {
    scale_ = std::max(scale_ / 2, kLeastScale);
    if (++retries_ <= kMostRetries) return Next::replay;
    state_.scale = scale_;
    state_.good_samples = state_.overflows = 0;
    close(true);
    return Next::skip;
  }
  if (retries_ > 0) {
    state_.good_samples = 0;
    if (++state_.overflows >= kHysteresis) {
      state_.scale = scale_;
      state_.overflows = 0;
    }
  } else {
    state_.good_samples += samples;
    if (static_cast<double>(state_.good_samples) >= settings_.growth_samples) {
      state_.scale = std::min(state_.scale * 2, std::max(kMost, state_.scale));
      state_.good_samples = state_.overflows = 0;
    }
  }
  close(false);
  scale_ = state_.scale;
  return Next::update;
}

bool LossScale::hopeless() const {
  return state_.low_windows >= kMostLow || static_cast<std::int64_t>(state_.recent.count()) > kMostSkipped;
}

}  // namespace plimsoll
