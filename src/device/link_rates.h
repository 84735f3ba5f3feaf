// How fast the links of a simulated device are.
#pragma once

namespace plimsoll {

// Bytes per second each way; 0: as they can.
struct LinkRates {
  double host = 0, disk = 0;

  friend bool operator==(const LinkRates&, const LinkRates&) = default;
};

}  // namespace plimsoll
