#include <algorithm>
#include <cmath>

#include "ops/batch_norm/kernels.h"
#include "ops/batch_norm/tiles.h"

namespace plimsoll::cpu {

void pool_statistics(const BatchNormShape& shape, const float* statistics, const std::uint32_t* sample_ids, const float* mean,
                     bool add, double* sums) {
  const std::int64_t channels = shape.channels;
  const BatchNormTerms terms{shape, 0, ops::NormActivation::none, nullptr, nullptr, sample_ids};
  if (!add) std::fill_n(sums, 2 * channels + 1, 0.0);
  for (std::int64_t group = 0; group < shape.groups; ++group) {
    const auto values = static_cast<double>(batch_norm::values_of_group(terms, group));
    if (values == 0) continue;
    const float* of = statistics + group * 2 * channels;
    for (std::int64_t c = 0; c < channels; ++c) {
      const double deviation = static_cast<double>(of[c]) - static_cast<double>(mean[c]);
      sums[c] += values * deviation;
      sums[channels + c] += values * (static_cast<double>(of[channels + c]) + deviation * deviation);
    }
    sums[2 * channels] += values;
  }
}

void move_statistics(std::int64_t channels, const double* sums, double momentum, float* mean, float* variance) {
  const double values = sums[2 * channels];
  if (!(values > 1)) return;
  for (std::int64_t c = 0; c < channels; ++c) {
    const double deviation = sums[c] / values;
    const double unbiased = std::max(0.0, sums[channels + c] - values * deviation * deviation) / (values - 1);
    if (!std::isfinite(sums[c]) || !std::isfinite(sums[channels + c])) continue;
    mean[c] = static_cast<float>(static_cast<double>(mean[c]) + momentum * deviation);
    variance[c] = static_cast<float>(static_cast<double>(variance[c]) + momentum * (unbiased - static_cast<double>(variance[c])));
  }
}

}  // namespace plimsoll::cpu
