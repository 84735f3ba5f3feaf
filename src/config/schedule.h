// Schedules of the learning rate and of momentum. Clocks run in samples: the rate of an update depends on the number of samples
// before it, so it is the same for every micro-batch and accumulation, and after a restart.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plimsoll {

enum class ScheduleKind : std::uint8_t {
  constant,
  linear,
  cosine,
  cosine_restarts,  // Loshchilov and Hutter 2017 (arXiv 1608.03983)
  triangular,       // Smith 2017 (arXiv 1506.01186)
  triangular2,      // the same, each cycle half as high as the previous one
  one_cycle,        // Smith and Topin 2018 (arXiv 1708.07120)
  wsd,              // warm-up, stable, decay: Hu et al. 2024 (arXiv 2404.06395)
  polynomial,
  plateau,  // train/improvement.h
};

enum class ClockUnit : std::uint8_t { updates, samples, tokens };

// A length of training: "100updates", "20000samples", "1Mtokens".
struct Duration {
  std::int64_t amount = 0;
  ClockUnit unit = ClockUnit::updates;

  friend bool operator==(const Duration&, const Duration&) = default;
};

enum class DecayShape : std::uint8_t { linear, sqrt };  // 1 - p, 1 - sqrt(p): Hägele et al. 2024 (arXiv 2405.18392)

struct Schedule {
  ScheduleKind kind = ScheduleKind::constant;
  Duration warmup;
  double final_fraction = 1;      // final rate / peak rate; with cycles: lowest rate / peak rate
  Duration cycle;                 // cosine_restarts: length of the first cycle; triangular: of each
  std::int64_t cycle_growth = 1;  // cosine_restarts: length of a cycle / length of the previous one
  double start_fraction = 0.04;   // one_cycle: initial rate / peak rate
  double peak_at = 0.3;           // one_cycle: the share of the run in which the rate rises
  Duration decay;                 // wsd: length of the decay at the end of the run
  DecayShape decay_shape = DecayShape::sqrt;
  double power = 1;     // polynomial: exponent
  Duration patience;    // plateau: the rate falls after this length without a lower validation loss
  double factor = 0.1;  // plateau: next rate / rate
  // one_cycle, triangular: momentum, or the first beta, at the lowest and at the highest rate.
  std::optional<std::array<double, 2>> momentum;

  friend bool operator==(const Schedule&, const Schedule&) = default;
};

// The numbers that convert updates and tokens into samples.
struct RunLength {
  std::int64_t effective_batch = 1;
  std::int64_t context = 1;  // tokens of a sample
  std::int64_t updates = 1;
};

// A number, an optional k, M or G (10^3, 10^6, 10^9) and a unit: updates, samples, tokens, or % of `updates`. No
// unit means updates. E-CONFIG-VALUE or E-CONFIG-RANGE, naming `where`.
Duration parse_duration(std::string_view text, std::int64_t updates, const std::string& where);
std::string to_text(const Duration& duration);
double in_samples(const Duration& duration, const RunLength& run);
// Rounded up to whole updates.
std::int64_t in_updates(const Duration& duration, const RunLength& run);

// The rate as a fraction of the peak, for the update that begins after s samples. With B samples of an update, a warm-up of W
// samples and a run of S = updates * B samples:
//   s + B < W   (s + B) / W times the fraction that follows: update 1 of a warm-up of n updates has 1 / n of it
//   otherwise   f + (1 - f) * level, where f = final_fraction and p = clamp((s - W) / (S - W), 0, 1), with the levels
//     constant 1, linear 1 - p, cosine (1 + cos(pi p)) / 2, polynomial (1 - p)^power
//     cosine_restarts (1 + cos(pi q)) / 2, triangular 1 - |2 q - 1|, where q is the share of its cycle that is over;
//     triangular2 the same over 2^(cycles before)
//     one_cycle (1 - cos(pi q)) / 2 with f = start_fraction, then (1 + cos(pi q)) / 2, where q is the share of the phase that is
//     over: 1 for the last update of the first peak_at (S - W) samples, and for the last of the run, as in PyTorch
//     wsd 1, and over the last `decay` 1 - q or 1 - sqrt(q), where q is the share of the decay that is over
//     plateau 1; the losses of evaluations decide the rest
double schedule_factor(const Schedule& schedule, const RunLength& run, std::int64_t samples_before);

// The momentum of the same update: the level interpolates between the two ends of the range. `usual` if the schedule has no
// range.
double scheduled_momentum(const Schedule& schedule, const RunLength& run, std::int64_t samples_before, double usual);

}  // namespace plimsoll
