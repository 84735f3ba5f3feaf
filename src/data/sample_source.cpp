#include "data/sample_source.h"

#include <algorithm>

#include "base/error.h"

namespace plimsoll {

void fill_sample_ids(std::span<const PlacedSample> samples, std::span<std::uint32_t> ids) {
  std::ranges::fill(ids, kAbsentSample);
  for (const PlacedSample& each : samples) {
    const auto at = 2 * static_cast<std::size_t>(each.row);
    ensure(at + 1 < ids.size(), "fill_sample_ids", "a sample lies behind the last row");
    ids[at] = each.ref.epoch;
    ids[at + 1] = each.ref.sample;
  }
}

}  // namespace plimsoll
