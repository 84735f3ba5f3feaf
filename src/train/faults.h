// What `plimsoll verify` and tests make wrong on purpose, to see that it is noticed.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace plimsoll {

struct Faults {
  std::vector<double> weights;  // of each micro-step's gradient in a window; empty: 1
  bool keep_gradients = false;  // windows add to the gradients of the one before
  // The gradient of a micro-step, counted from 0, of an update is infinite as often as it is computed.
  struct Overflow {
    std::int64_t update = 0, micro = 0, times = 0;
  } overflow;

  // By which the gradient of a micro-step is multiplied.
  double weight(std::int64_t update, std::int64_t micro);
};

// "", "keep_gradients", "weights=0.5,1" or "overflow=UPDATE:MICRO:TIMES". config_error E-USAGE otherwise.
Faults parse_faults(std::string_view text);

}  // namespace plimsoll
