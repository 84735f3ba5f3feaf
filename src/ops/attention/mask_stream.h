// One sample's stream of dropout decisions: its random words and what a decision multiplies by.
#pragma once

#include <cmath>
#include <cstdint>

#include "device/cpu/philox_stream.h"
#include "ops/attention/kernels.h"

namespace plimsoll::cpu {

struct MaskStream {
  PhiloxStream noise;
  std::uint32_t threshold = 0;  // kept where the word's upper 24 bits are at least this
  float keep_factor = 1;
  bool active = false;

  MaskStream(const AttentionDropout& dropout, std::int64_t batch_row) {
    if (dropout.probability == 0) return;
    active = true;
    const std::uint32_t epoch = dropout.sample_ids[2 * batch_row], sample = dropout.sample_ids[2 * batch_row + 1];
    noise = {dropout.key, sample, epoch};
    threshold = static_cast<std::uint32_t>(std::ceil(double{dropout.probability} * 0x1p24));
    keep_factor = 1.0f / (1.0f - dropout.probability);
  }
};

}  // namespace plimsoll::cpu
