#include "data/data_set.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/bytes.h"

namespace plimsoll {

std::int64_t RowBytes::of(std::int64_t rows, std::int64_t positions) const {
  return align_up(Bytes{rows * (per_position * positions + beside)}, kCacheLine).n;
}

RowShape both(const RowShape& a, const RowShape& b) {
  return {{std::max(a.bytes.per_position, b.bytes.per_position), std::max(a.bytes.beside, b.bytes.beside)},
          std::max(a.image_size, b.image_size)};
}

const SampleCounts& DataSet::counts() const {
  static const SampleCounts kNone;
  return kNone;
}

Error DataSet::too_short(const Reading& reading) const {
  return data_error("E-DATA-SHORT", name(), fmt::format("it has {} sample(s)", count(reading)), "at least two samples");
}

DataExtract DataSet::extract(const std::filesystem::path&, std::int64_t, const Reading&) const {
  throw internal_error("DataSet", "data without extracts");
}

}  // namespace plimsoll
