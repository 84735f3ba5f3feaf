// One sample's stream of dropout decisions: the Philox key, the upper counter words and what a decision multiplies by.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "ops/attention/kernels.h"

namespace plimsoll::cpu {

struct MaskStream {
  std::array<std::uint32_t, 2> key{};
  std::array<std::array<std::uint64_t, 2>, 10> round_keys{};  // key of each Philox round, in 64-bit lanes
  std::uint32_t epoch = 0, sample = 0;
  std::uint32_t threshold = 0;  // kept where the word's upper 24 bits are at least this
  float keep_factor = 1;
  bool active = false;

  MaskStream(const AttentionDropout& dropout, std::int64_t batch_row) {
    if (dropout.probability == 0) return;
    active = true;
    key = dropout.key;
    for (std::uint32_t round = 0; round < 10; ++round) {
      round_keys[round] = {std::uint32_t{key[0] + round * 0x9E3779B9u}, std::uint32_t{key[1] + round * 0xBB67AE85u}};
    }
    epoch = dropout.sample_ids[2 * batch_row];
    sample = dropout.sample_ids[2 * batch_row + 1];
    threshold = static_cast<std::uint32_t>(std::ceil(double{dropout.probability} * 0x1p24));
    keep_factor = 1.0f / (1.0f - dropout.probability);
  }
};

}  // namespace plimsoll::cpu
