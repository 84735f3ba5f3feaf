// Deliberate errors of `plimsoll verify` and of tests, which checks have to notice.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace plimsoll {

// Wrong running statistics of batch normalisation (train/wrong_statistics.h).
enum class StatisticsFault : std::uint8_t {
  none,
  micro,   // each micro-step moves them, instead of the window
  twice,   // a window moves them twice
  replay,  // a micro-step enters the sums again, as if a replay added to them
  rows,    // rows without a sample count as samples
};

struct Faults {
  std::vector<double> weights;  // weight of each micro-batch's gradient in a window, whichever rank has it; empty: 1
  bool keep_gradients = false;  // each window adds to the gradients of the last one
  // The gradient of micro-step `micro` (from 0) of an update is infinite, `times` times.
  struct Overflow {
    std::int64_t update = 0, micro = 0, times = 0;
  } overflow;
  StatisticsFault statistics = StatisticsFault::none;

  // The factor on the gradient of a micro-batch of the window. Counts down the times of the overflow.
  double weight(std::int64_t update, std::int64_t micro);
};

// "", "keep_gradients", "weights=0.5,1", "overflow=UPDATE:MICRO:TIMES" or "statistics=micro" ("twice", "replay", "rows").
// config_error E-USAGE otherwise.
Faults parse_faults(std::string_view text);

}  // namespace plimsoll
