// How far a training has come, and what has to be the same for its continuation to be the same run.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "weights/origin.h"

namespace plimsoll {

// Of the factor on the loss (train/loss_scale.h).
struct LossScaleState {
  static constexpr std::size_t kRecent = 200;  // windows
  double scale = 65536;                        // a power of two, with which the next window begins
  std::int64_t good_samples = 0;               // since it last changed, or overflowed
  std::int64_t overflows = 0;                  // windows that did since it last changed
  std::int64_t low_windows = 0;                // in a row that overflowed and ended with less than 1
  std::int64_t skipped = 0;                    // windows of the whole run
  std::bitset<kRecent> recent;                 // of the latest windows, which were skipped
  friend bool operator==(const LossScaleState&, const LossScaleState&) = default;
};

struct Progress {
  std::int64_t updates = 0;
  std::int64_t samples = 0;  // consumed; also the next position in the order
  std::int64_t units = 0;
  double seconds = 0;
  double loss = 0;  // of the last update

  std::int64_t micro_batch = 0, accumulation = 0;
  std::int64_t seed = 0;
  std::string data_hash;
  std::optional<LossScaleState> loss_scale;  // of fp16
  Origin origin;
};

}  // namespace plimsoll
