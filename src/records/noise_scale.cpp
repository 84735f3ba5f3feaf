#include "records/noise_scale.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/philox.h"
#include "base/text.h"
#include "records/line_reader.h"

namespace plimsoll {
namespace {

constexpr int kResamples = 1000;
constexpr double kTail = 0.05;  // on each side of the interval

// Sums over windows.
struct Sums {
  double fall = 0;     // of |g|^2 - |G|^2
  double shares = 0;   // of 1/m - 1/M
  double squares = 0;  // of |G|^2
  double inverse = 0;  // of 1/M
  double count = 0;

  void add(const NoiseSums& window) {
    fall += window.first - window.window;
    shares += 1 / window.samples_first - 1 / window.samples_window;
    squares += window.window;
    inverse += 1 / window.samples_window;
    ++count;
  }
  // The square of the expected gradient over the variance of a sample: the inverse of the noise scale. Infinite without noise.
  double signal() const {
    const double variance = fall / shares;
    if (!(shares > 0) || !(variance > 0)) return std::numeric_limits<double>::infinity();
    return (squares / count - variance * inverse / count) / variance;
  }
};

// With ragged samples the first round may count for more than the window: a long sample of another round takes weight from all.
bool is_usable(const NoiseSums& window) {
  return std::isfinite(window.first) && std::isfinite(window.window) && window.samples_first > 0 && window.samples_window > 0 &&
         window.samples_first != window.samples_window;
}

bool is_scale(double signal) { return signal > 0 && std::isfinite(signal) && std::isfinite(1 / signal); }

}  // namespace

std::optional<NoiseScale> noise_scale(std::span<const NoiseSums> windows) {
  std::vector<NoiseSums> usable;
  std::ranges::copy_if(windows, std::back_inserter(usable), is_usable);
  const std::size_t count = usable.size();
  if (std::ssize(usable) < kLeastNoiseWindows) return {};
  Sums all;
  for (const NoiseSums& window : usable) all.add(window);
  const double signal = all.signal();
  if (!is_scale(signal)) return {};
  std::vector<double> signals;
  std::uint64_t draw = 0;
  for (int i = 0; i < kResamples; ++i) {
    Sums some;
    for (std::size_t j = 0; j < count; ++j) some.add(usable[mix64(draw++) % count]);
    signals.push_back(some.signal());
    if (std::isnan(signals.back())) return {};  // sums that overflow
  }
  std::ranges::sort(signals);
  const auto tail = static_cast<std::size_t>(kTail * kResamples);
  const double low = signals[tail], high = signals[signals.size() - 1 - tail];
  if (!is_scale(low) || !is_scale(high)) return {};
  return NoiseScale{1 / signal, 1 / high, 1 / low, std::ssize(usable)};
}

void NoiseWindows::add(const Metrics& metrics) {
  last_ = metrics.update;
  if (!metrics.noise) return;
  windows_.push_back(*metrics.noise);
  updates_.push_back(metrics.update);
}

RunNoise NoiseWindows::noise() const {
  RunNoise noise{windows_, {}};
  const double all = static_cast<double>(std::max<std::int64_t>(1, last_));
  for (std::size_t i = 0; i < windows_.size(); ++i) {
    const double before = static_cast<double>(updates_[i]) - 1;
    noise.thirds[static_cast<std::size_t>(std::clamp(std::floor(before * 3 / all), 0.0, 2.0))].push_back(windows_[i]);
  }
  return noise;
}

RunNoise noise_of_run(const std::filesystem::path& folder) {
  NoiseWindows windows;
  read_metrics(folder, [&](const Metrics& metrics) { windows.add(metrics); });
  return windows.noise();
}

nlohmann::json to_json(const std::optional<NoiseScale>& scale) {
  if (!scale) return nullptr;
  return {{"value", scale->value}, {"low", scale->low}, {"high", scale->high}, {"windows", scale->windows}};
}

std::string noise_text(const std::optional<NoiseScale>& scale) {
  if (!scale) return "insufficient data";
  const auto samples = [](double number) {
    return number < 10 ? fmt::format("{:.2g}", number) : grouped(static_cast<std::int64_t>(std::min(number, 1e18) + 0.5));
  };
  return fmt::format("{} samples ({} to {})", samples(scale->value), samples(scale->low), samples(scale->high));
}

}  // namespace plimsoll
