// Deliberate errors of `plimsoll verify` and of tests, which checks have to notice.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace plimsoll {

struct Faults {
  std::vector<double> weights;  // weight of each micro-step's gradient in a window; empty: 1
  bool keep_gradients = false;  // each window adds to the gradients of the last one
  // The gradient of micro-step `micro` (from 0) of an update is infinite, `times` times.
  struct Overflow {
    std::int64_t update = 0, micro = 0, times = 0;
  } overflow;

  // The factor on the gradient of a micro-step. Counts down the times of the overflow.
  double weight(std::int64_t update, std::int64_t micro);
};

// "", "keep_gradients", "weights=0.5,1" or "overflow=UPDATE:MICRO:TIMES". config_error E-USAGE otherwise.
Faults parse_faults(std::string_view text);

}  // namespace plimsoll
