// Whether a run still learns, from the losses and gradient norms of its updates alone. Allocates nothing after it was made.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace plimsoll {

struct Config;

// The latest of so many numbers.
template <std::size_t kMost>
class Latest {
 public:
  void add(double value) { values_[count_++ % kMost] = value; }
  std::size_t size() const { return count_ < kMost ? count_ : kMost; }
  // 0 of none. Of an even number the upper of both.
  double median() const;
  // Half of the values are no farther from the median; as a standard deviation of a normal distribution.
  double deviation() const;

 private:
  std::array<double, kMost> values_{};
  std::size_t count_ = 0;
};

struct Divergence {
  const char* reason;  // DIVERGED_ABOVE_START, DIVERGED_FROM_BEST
  std::string text;
};

// The smoothed loss is an average with a half-life of 20 updates; what single losses deviate from it, in the median and when it
// was lowest, is the noise. From update 32 on:
//
// - DIVERGED_ABOVE_START: behind the warm-up, 50 updates in a row, it was three times the noise above the mean of the first 10
//   losses, or above the first one and what guessing costs.
// - DIVERGED_FROM_BEST: 60 updates in a row it was above its lowest value by 30 % of what had been learned there, and by six
//   times the noise.
// - A spike is a loss whose distance from the smoothed one, or a norm whose logarithm, lies more than 6 deviations above the
//   median of the 128 before it.
class DivergenceWatch {
 public:
  static constexpr int kMostInARow = 60;  // updates that a divergence takes to be one

  // `guessing`: a loss that no training is needed for.
  DivergenceWatch(std::int64_t warmup_updates, double guessing) : warmup_(warmup_updates), guessing_(guessing) {}

  struct Seen {
    bool spike = false, unstable = false;  // unstable: with this one, more than five spikes within 1,000 updates
    std::optional<Divergence> divergence;
  };
  // Updates are counted from 1, and come in this order. Finite numbers only.
  Seen see(std::int64_t update, double loss, double gradient_norm);

 private:
  double smoothed() const { return weighted_ / weight_; }
  void smooth(double loss);
  bool take_spike(double loss, double gradient_norm);
  bool take_unstable(std::int64_t update);
  std::optional<Divergence> judge(std::int64_t update);

  std::int64_t warmup_;
  double guessing_;
  Latest<128> distances_, norms_;         // of losses from the smoothed one; logarithms
  std::array<std::int64_t, 6> spikes_{};  // the latest updates with one, 0: none
  std::size_t spike_count_ = 0;
  double weighted_ = 0, weight_ = 0;  // of the smoothed loss, which is their quotient
  double first_ = 0, start_ = 0, best_ = 0, noise_ = 0;
  std::int64_t seen_ = 0, best_at_ = 0;
  int above_start_ = 0, above_best_ = 0;  // updates in a row
};

// Updates that the learning rate rises for.
std::int64_t warmup_updates(const Config& config);

// With the warm-up of the configuration; guessing takes any token for as likely as another, and half a nat more.
DivergenceWatch divergence_watch(const Config& config);

}  // namespace plimsoll
