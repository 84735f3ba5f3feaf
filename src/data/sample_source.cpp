#include "data/sample_source.h"

#include <algorithm>

#include "base/error.h"

namespace plimsoll {

void fill_sample_ids(std::span<const SampleRef> samples, std::span<std::uint32_t> ids) {
  ensure(ids.size() >= 2 * samples.size(), "fill_sample_ids", "there are more samples than rows");
  for (std::size_t i = 0; i < samples.size(); ++i) {
    ids[2 * i] = samples[i].epoch;
    ids[2 * i + 1] = samples[i].sample;
  }
  std::ranges::fill(ids.subspan(2 * samples.size()), kAbsentSample);
}

}  // namespace plimsoll
