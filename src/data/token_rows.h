// Rows of tokens, one per sample. They are read in two steps: raw bytes from the file, possibly ahead by a thread, and unpacking
// into the planned buffers. Neither allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "data/order.h"
#include "data/sample_source.h"
#include "data/source.h"

namespace plimsoll {

// The caller's planned buffers for a micro-batch of b samples and context T.
struct MicroBatch {
  std::span<std::int32_t> inputs;       // [b, T]; 0 past the end of a sample
  std::span<std::int32_t> targets;      // [b, T]; kIgnoredTarget past the end of a sample
  std::span<std::uint32_t> sample_ids;  // [b, 2]: epoch, sample; kAbsentSample twice for rows without a sample
};

inline constexpr std::int32_t kIgnoredTarget = -1;

// Bytes of the staging buffer for one micro-batch, a multiple of 64.
std::int64_t staging_bytes(std::int64_t micro_batch, std::int64_t context, std::int64_t bytes_per_token);

// Reads the raw tokens of each sample into a row of its own of (context + 1) * bytes_per_token bytes. Touches no more of
// `staging`.
void read_samples(const TokenFile& source, const Samples& samples, std::span<const PlacedSample> placed,
                  std::span<std::byte> staging);

// Fills every element of `out` from the raw tokens. E-DATA-TOKEN names file, position and value of a token past the vocabulary.
void unpack_samples(const TokenFile& source, const Samples& samples, std::span<const PlacedSample> placed,
                    std::span<const std::byte> staging, const MicroBatch& out);

}  // namespace plimsoll
