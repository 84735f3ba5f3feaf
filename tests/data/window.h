// The samples of one update, and its micro-batches one by one, as tests feed them by hand.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "data/token_rows.h"

namespace plimsoll {

struct Window {
  std::int64_t first_position = 0;
  std::vector<SampleRef> samples;
  std::int64_t valid_units = 0;  // over all samples
  std::int64_t micro_batch = 1;
  std::int64_t micro_count = 0;

  // The samples of one micro-batch; the last one may have fewer than micro_batch.
  std::span<const SampleRef> micro(std::int64_t index) const {
    const std::int64_t begin = index * micro_batch, end = std::min(begin + micro_batch, std::ssize(samples));
    return std::span(samples).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  }
};

// Makes `window` the `count` samples from `first_position` on. Keeps the vector's memory: allocates only where count grows.
inline void plan_window(Window& window, const SampleOrder& order, const Samples& samples, std::int64_t first_position,
                        std::int64_t count, std::int64_t micro_batch) {
  ensure(count > 0 && micro_batch > 0, "plan_window", "a window without samples");
  window.first_position = first_position;
  window.micro_batch = micro_batch;
  window.micro_count = (count + micro_batch - 1) / micro_batch;
  window.valid_units = 0;
  window.samples.resize(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const SampleRef ref = order.at(first_position + i);
    window.samples[static_cast<std::size_t>(i)] = ref;
    window.valid_units += samples.valid_units(ref.sample);
  }
}

// Reads and unpacks micro-batch `index` of a window.
inline void fill_micro_batch(const TokenFile& source, const Samples& samples, const Window& window, std::int64_t index,
                             std::span<std::byte> staging, const MicroBatch& out) {
  read_samples(source, samples, window.micro(index), staging);
  unpack_samples(source, samples, window.micro(index), staging, out);
}

}  // namespace plimsoll
