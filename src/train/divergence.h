// Tells from losses and gradient norms of updates if a run still learns. Allocates nothing after construction.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace plimsoll {

struct Config;

// The latest kMost numbers.
class Latest {
 public:
  static constexpr std::size_t kMost = 128;

  void add(double value) { values_[count_++ % kMost] = value; }
  std::size_t size() const { return count_ < kMost ? count_ : kMost; }
  // 0 for none; the upper of the two middle values for an even number.
  double median() const;
  // The median distance from the median, scaled like the standard deviation of a normal distribution.
  double deviation() const;

 private:
  std::array<double, kMost> values_{};
  std::size_t count_ = 0;
};

struct Divergence {
  const char* reason;  // DIVERGED_ABOVE_START, DIVERGED_FROM_BEST
  std::string text;
};

// The smoothed loss is an average with a half-life of 20 updates. The noise is the median deviation of single losses from it,
// taken when it was lowest. From the 32nd update on:
//
//   smoothed loss
//    |                                    . .   3 noises above the start: DIVERGED_ABOVE_START
//   start - - - - - - - - - - - - - - - - - -
//    |     .                          .
//    |        .                    .            30 % of (start - best), 6 noises above the best: DIVERGED_FROM_BEST
//   best - - - - . - . - - . - . - - - - - -
//    +---------------------------------------> updates
//
// - DIVERGED_ABOVE_START: for 50 updates in a row after the warm-up, the smoothed loss was too high. It was above the start by
//   three times the noise, or above both the first loss and the cost of guessing. The start is the mean of the first 10 losses.
// - DIVERGED_FROM_BEST: for 60 updates in a row, the smoothed loss was above its lowest value by 30 % of the progress made there,
//   and by six times the noise.
// - A spike is a loss whose distance from the smoothed one, or a norm whose logarithm, lies more than 6 deviations above the
//   median of the 128 before it.
class DivergenceWatch {
 public:
  static constexpr int kMostInARow = 60;  // updates in a row after which any divergence is certain

  // `guessing`: the loss of a model without training.
  DivergenceWatch(std::int64_t warmup_updates, double guessing) : warmup_(warmup_updates), guessing_(guessing) {}

  struct Seen {
    bool spike = false, unstable = false;  // unstable: more than five spikes within 1,000 updates, this one included
    std::optional<Divergence> divergence;
  };
  // Updates are counted from 1 and come in order. Numbers are finite.
  Seen see(std::int64_t update, double loss, double gradient_norm);

 private:
  double smoothed() const { return weighted_ / weight_; }
  void smooth(double loss);
  bool take_spike(double loss, double gradient_norm);
  bool take_unstable(std::int64_t update);
  std::optional<Divergence> judge(std::int64_t update);

  std::int64_t warmup_;
  double guessing_;
  Latest distances_, norms_;              // distances of losses from the smoothed one; logarithms of norms
  std::array<std::int64_t, 6> spikes_{};  // the latest updates with a spike; 0: none
  std::size_t spike_count_ = 0;
  double weighted_ = 0, weight_ = 0;  // smoothed loss = weighted_ / weight_
  double first_ = 0, start_ = 0, best_ = 0, noise_ = 0;
  std::int64_t seen_ = 0, best_at_ = 0;
  int above_start_ = 0, above_best_ = 0;  // updates in a row
};

// Number of updates of the warm-up.
std::int64_t warmup_updates(const Config& config);

// A watch with the warm-up of the configuration. Guessing is the loss of equally likely tokens plus half a nat.
DivergenceWatch divergence_watch(const Config& config);

}  // namespace plimsoll
