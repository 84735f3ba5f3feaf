// A window is the samples of one update. What it holds is known before its first micro-batch; then each micro-batch is read in
// two steps, raw bytes from the file (which a thread can do ahead) and unpacking into the planned buffers. No step allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/order.h"
#include "data/sample_source.h"
#include "data/source.h"

namespace plimsoll {

struct Window {
  std::int64_t first_position = 0;
  std::vector<SampleRef> samples;
  std::int64_t valid_units = 0;  // over all samples
  std::int64_t micro_batch = 1;
  std::int64_t micro_count = 0;

  // The samples of one micro-batch; the last one may have fewer than micro_batch.
  std::span<const SampleRef> micro(std::int64_t index) const;
};

// Makes `window` the `count` samples from `first_position` on. Keeps the vector's memory: allocates only where count grows.
void plan_window(Window& window, const SampleOrder& order, const Samples& samples, std::int64_t first_position,
                 std::int64_t count, std::int64_t micro_batch);

// The valid units alone of the `count` samples from `first_position` on; nothing is held.
std::int64_t window_units(const SampleOrder& order, const Samples& samples, std::int64_t first_position, std::int64_t count);

// Where a micro-batch of b samples and context T goes; the caller's planned buffers.
struct MicroBatch {
  std::span<std::int32_t> inputs;       // [b, T]; 0 where a sample is short or absent
  std::span<std::int32_t> targets;      // [b, T]; kIgnoredTarget there
  std::span<std::uint32_t> sample_ids;  // [b, 2]: epoch, sample; kAbsentSample twice for rows without a sample
};

inline constexpr std::int32_t kIgnoredTarget = -1;

// Bytes of the staging buffer for one micro-batch, a multiple of 64.
std::int64_t staging_bytes(std::int64_t micro_batch, std::int64_t context, std::int64_t bytes_per_token);

// Reads the raw tokens of each sample, one row of (context + 1) * bytes_per_token bytes each. Touches no more of `staging`.
void read_samples(const TokenFile& source, const Samples& samples, std::span<const SampleRef> refs, std::span<std::byte> staging);

// Fills every element of `out` from what read_samples left. E-DATA-TOKEN names file, position and value of a token past the
// vocabulary.
void unpack_samples(const TokenFile& source, const Samples& samples, std::span<const SampleRef> refs,
                    std::span<const std::byte> staging, const MicroBatch& out);

// Both steps for micro-batch `index` of a window.
void fill_micro_batch(const TokenFile& source, const Samples& samples, const Window& window, std::int64_t index,
                      std::span<std::byte> staging, const MicroBatch& out);

}  // namespace plimsoll
