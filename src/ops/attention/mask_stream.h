// The dropout decisions of one sample at a time: random words and factors.
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

  // A stream that has no sample yet.
  explicit MaskStream(const AttentionDropout& dropout) {
    if (dropout.probability == 0) return;
    active = true;
    noise = {dropout.key, 0, 0};
    threshold = static_cast<std::uint32_t>(std::ceil(double{dropout.probability} * 0x1p24));
    keep_factor = 1.0f / (1.0f - dropout.probability);
  }
  // The stream of a row's sample, if each row has one.
  MaskStream(const AttentionDropout& dropout, std::int64_t batch_row) : MaskStream(dropout) {
    if (active && !dropout.tokens) take(dropout.sample_ids[2 * batch_row], dropout.sample_ids[2 * batch_row + 1]);
  }

  void take(std::uint32_t epoch, std::uint32_t sample) {
    noise.third = sample;
    noise.fourth = epoch;
  }
};

}  // namespace plimsoll::cpu
