// The rates of a simulated device's links.
#pragma once

namespace plimsoll {

// Bytes per second and direction; 0: no limit.
struct LinkRates {
  double host = 0, disk = 0;

  friend bool operator==(const LinkRates&, const LinkRates&) = default;
};

}  // namespace plimsoll
