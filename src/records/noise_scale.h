// The gradient noise scale of a run: the number of samples whose mean gradient has as much noise as signal. It follows from two
// sums of squares in each measured window (McCandlish et al., 2018, "An Empirical Model of Large-Batch Training", appendix A.1).
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train/metrics.h"

namespace plimsoll {

// Windows with fewer measurements tell nothing.
inline constexpr std::int64_t kLeastNoiseWindows = 20;

// In samples.
struct NoiseScale {
  double value = 0;
  double low = 0, high = 0;  // of an interval of 90 %
  std::int64_t windows = 0;
};

// g is the mean gradient of the first round over m samples, G that of the window over M. Sums over windows come before ratios:
//
//   S = sum(|g|^2 - |G|^2) / sum(1/m - 1/M)   the variance of a sample
//   E = mean(|G|^2) - S mean(1/M)             the square of the expected gradient
//   S / E                                     the noise scale
//
// The interval is that of a bootstrap over windows, with a fixed seed. Nothing with too few windows, or if the interval reaches
// zero or infinity.
std::optional<NoiseScale> noise_scale(std::span<const NoiseSums> windows);

// The windows of a run, and of its thirds by updates.
struct RunNoise {
  std::vector<NoiseSums> windows;
  std::array<std::vector<NoiseSums>, 3> thirds;
};
// Collects the windows of updates in their order.
class NoiseWindows {
 public:
  void add(const Metrics& metrics);
  RunNoise noise() const;

 private:
  std::vector<NoiseSums> windows_;
  std::vector<std::int64_t> updates_;  // of the windows
  std::int64_t last_ = 0;              // update
};
RunNoise noise_of_run(const std::filesystem::path& folder);

// {value, low, high, windows}, or null.
nlohmann::json to_json(const std::optional<NoiseScale>& scale);
// "1,200 samples (900 to 1,600)", or "insufficient data".
std::string noise_text(const std::optional<NoiseScale>& scale);
// A sentence on the use of the number.
inline constexpr const char* kNoiseAdvice = "an order of magnitude for the useful batch of AdamW; it says little for Lion";

}  // namespace plimsoll
