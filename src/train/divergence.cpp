#include "train/divergence.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "config/config.h"
#include "models/family.h"

namespace plimsoll {
namespace {

constexpr int kFirst = 10, kFewest = 32;
constexpr double kHalfLife = 20, kMostDeviations = 6;
constexpr std::int64_t kSpan = 1000;
constexpr int kAboveStart = 50, kAboveBest = DivergenceWatch::kMostInARow;
constexpr double kStartNoise = 3, kBestNoise = 6, kLostShare = 0.3;
// Smaller differences of a loss, or of the logarithm of a norm, do not count.
constexpr double kLeastShare = 1e-3, kLeastLog = 0.05;

double middle_of(std::array<double, Latest::kMost> values, std::size_t count) {
  if (count == 0) return 0;
  const auto begin = values.begin(), middle = begin + static_cast<std::ptrdiff_t>(count / 2);
  std::nth_element(begin, middle, begin + static_cast<std::ptrdiff_t>(count));
  return *middle;
}

}  // namespace

double Latest::median() const { return middle_of(values_, size()); }

double Latest::deviation() const {
  constexpr double kOfNormal = 1.4826;
  const double center = median();
  std::array<double, kMost> distances{};
  for (std::size_t i = 0; i < size(); ++i) distances[i] = std::abs(values_[i] - center);
  return kOfNormal * middle_of(distances, size());
}

bool DivergenceWatch::take_spike(double loss, double gradient_norm) {
  const auto stands_out = [](auto& before, double value, double least) {
    const double limit = kMostDeviations * std::max(before.deviation(), least);
    const bool enough = before.size() >= kFewest, out = value - before.median() > limit;
    before.add(value);
    return enough && out;
  };
  const bool by_loss = seen_ > 0 && stands_out(distances_, loss - smoothed(), kLeastShare * std::abs(smoothed()));
  const bool by_norm = gradient_norm > 0 && stands_out(norms_, std::log(gradient_norm), kLeastLog);
  return by_loss || by_norm;
}

bool DivergenceWatch::take_unstable(std::int64_t update) {
  spikes_[spike_count_++ % spikes_.size()] = update;
  const std::int64_t oldest = spikes_[spike_count_ % spikes_.size()];
  return oldest > 0 && update - oldest < kSpan;
}

void DivergenceWatch::smooth(double loss) {
  const double keep = std::exp2(-1 / kHalfLife);
  weighted_ = keep * weighted_ + (1 - keep) * loss;
  weight_ = keep * weight_ + (1 - keep);
}

std::optional<Divergence> DivergenceWatch::judge(std::int64_t update) {
  const double now = smoothed();
  if (seen_ == kFewest || now < best_) {
    best_ = now;
    best_at_ = update;
    noise_ = std::max(distances_.deviation(), kLeastShare * std::abs(start_));
  }
  const bool above = now > start_ + kStartNoise * noise_ || now > std::max(first_, guessing_);
  above_start_ = update > warmup_ && above ? above_start_ + 1 : 0;
  above_best_ = now > best_ + std::max(kLostShare * (start_ - best_), kBestNoise * noise_) ? above_best_ + 1 : 0;
  if (above_start_ >= kAboveStart) {
    return Divergence{"DIVERGED_ABOVE_START", fmt::format("the smoothed loss is {:.4g}; it began with {:.4g}", now, first_)};
  }
  if (above_best_ < kAboveBest) return {};
  return Divergence{"DIVERGED_FROM_BEST",
                    fmt::format("the smoothed loss is {:.4g}; at update {} it was {:.4g}", now, best_at_, best_)};
}

DivergenceWatch::Seen DivergenceWatch::see(std::int64_t update, double loss, double gradient_norm) {
  Seen seen{.spike = take_spike(loss, gradient_norm), .divergence = {}};
  seen.unstable = seen.spike && take_unstable(update);
  smooth(loss);
  if (++seen_ == 1) first_ = loss;
  if (seen_ <= kFirst) start_ += loss / kFirst;
  if (seen_ >= kFewest) seen.divergence = judge(update);
  return seen;
}

std::int64_t warmup_updates(const Config& config) {
  const double samples = in_samples(config.schedule.warmup, run_length(config));
  return static_cast<std::int64_t>(std::ceil(samples / static_cast<double>(config.train.effective_batch)));
}

DivergenceWatch divergence_watch(const Config& config) {
  constexpr double kBesideGuessing = 0.5;  // nats
  const double chance = facts_of(config.model.config).chance_loss;
  return {warmup_updates(config), chance + config.train.z_loss * chance * chance + kBesideGuessing};
}

}  // namespace plimsoll
