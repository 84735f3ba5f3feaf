// The cut of a call of batch norm into tasks, and the samples of its groups.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/bytes.h"
#include "base/ceil_div.h"
#include "device/cpu/tiles.h"
#include "ops/batch_norm/kernels.h"

namespace plimsoll::cpu::batch_norm {

inline constexpr std::int64_t kColumns = 256;                   // channels of a block
inline constexpr std::int64_t kLeastRows = 128;                 // rows of the smallest piece
inline constexpr std::int64_t kMostPieces = 64;                 // of a group
inline constexpr std::int64_t kAtOnce = std::int64_t{1} << 20;  // elements of groups whose passes follow each other, for caches
inline constexpr std::int64_t kAtOnceSums = std::int64_t{1} << 15;  // most partial sums of several such groups
inline constexpr std::int64_t kCombined = 64;                       // channels of a task that adds up partial sums

// The cut of a group, [rows, channels], into tasks: pieces of rows times blocks of channels. Fixed by the shape.
struct Cut {
  std::int64_t rows, columns, blocks, piece, pieces, at_once;

  explicit Cut(const BatchNormShape& s)
      : rows(s.samples * s.values), columns(std::min(s.channels, kColumns)), blocks(ceil_div(s.channels, kColumns)) {
    const std::int64_t least = std::max(kElementTile / columns, ceil_div(rows, kMostPieces));
    piece = round_up(least, kLeastRows);
    pieces = ceil_div(rows, piece);
    const std::int64_t cached = std::min(kAtOnce / (rows * s.channels), kAtOnceSums / (pieces * 2 * s.channels));
    at_once = std::clamp<std::int64_t>(cached, 1, s.groups);
  }
  std::int64_t tasks() const { return pieces * blocks; }
  Bytes partials(std::int64_t channels) const { return Bytes{at_once * pieces * 2 * channels * 8}; }
};

// A task: `slot` is the place of the group among those at once.
struct Part {
  std::int64_t group, slot, piece, block;
};

inline bool present(const BatchNormTerms& terms, std::int64_t sample) {
  return terms.sample_ids == nullptr || terms.sample_ids[2 * sample + 1] != ops::kAbsentRow;
}

inline std::int64_t values_of_group(const BatchNormTerms& terms, std::int64_t group) {
  const std::int64_t samples = terms.shape.samples;
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < samples; ++i) count += present(terms, group * samples + i) ? 1 : 0;
  return count * terms.shape.values;
}

inline double* partials_of(double* partials, const Cut& cut, std::int64_t channels, std::int64_t slot, std::int64_t piece) {
  return partials + (slot * cut.pieces + piece) * 2 * channels;
}

}  // namespace plimsoll::cpu::batch_norm
