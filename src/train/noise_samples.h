// Counts of the samples behind a mean gradient.
#pragma once

#include <cstdint>

namespace plimsoll {

struct CountedSamples {
  double units = 0, squares = 0;  // sums of n and n^2 over the units n of the samples

  void add(std::int64_t n) {
    units += static_cast<double>(n);
    squares += static_cast<double>(n) * static_cast<double>(n);
  }
  // Kish's effective number (Survey Sampling, 1965): as many equal samples have a mean of the same variance.
  double effective() const { return squares > 0 ? units * units / squares : 0; }
};

}  // namespace plimsoll
