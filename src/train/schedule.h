// Learning rate schedules. Clocks run in samples: the rate of an update depends on how many samples come before it, so it is the
// same for every micro-batch and accumulation, and after a restart.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll {

enum class ScheduleKind : std::uint8_t { constant, linear, cosine };

enum class ClockUnit : std::uint8_t { updates, samples, tokens };

// A length of training: "100updates", "20000samples", "1Mtokens".
struct Duration {
  std::int64_t amount = 0;
  ClockUnit unit = ClockUnit::updates;

  friend bool operator==(const Duration&, const Duration&) = default;
};

struct Schedule {
  ScheduleKind kind = ScheduleKind::constant;
  Duration warmup;
  double final_fraction = 1;  // of the peak, at the end of the run

  friend bool operator==(const Schedule&, const Schedule&) = default;
};

// What turns updates and tokens into samples.
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

// The rate as a fraction of the peak, for the update that begins after s samples. With B samples of an update, a warm-up of W
// samples and a run of S = updates * B samples:
//   s + B < W   (s + B) / W: update 1 of a warm-up of n updates has 1 / n, update n has 1
//   otherwise   f + (1 - f) * shape(p), where f = final_fraction and p = clamp((s - W) / (S - W), 0, 1),
//               with shape(p) = 1 (constant), 1 - p (linear), (1 + cos(pi p)) / 2 (cosine)
double schedule_factor(const Schedule& schedule, const RunLength& run, std::int64_t samples_before);

}  // namespace plimsoll
