#include "config/schedule.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numbers>
#include <optional>
#include <utility>

#include "base/error.h"

namespace plimsoll {
namespace {

constexpr double kMaxAmount = 0x1p53;

constexpr std::array<std::pair<std::string_view, ClockUnit>, 7> kUnits{{{"", ClockUnit::updates},
                                                                        {"updates", ClockUnit::updates},
                                                                        {"update", ClockUnit::updates},
                                                                        {"samples", ClockUnit::samples},
                                                                        {"sample", ClockUnit::samples},
                                                                        {"tokens", ClockUnit::tokens},
                                                                        {"token", ClockUnit::tokens}}};

std::optional<ClockUnit> find_unit(std::string_view name) {
  for (const auto& [text, unit] : kUnits) {
    if (text == name) return unit;
  }
  return std::nullopt;
}

void skip_spaces(std::string_view& text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
}

double take_multiple(std::string_view& text) {
  constexpr std::array<std::pair<char, double>, 4> kMultiples{{{'k', 1e3}, {'K', 1e3}, {'M', 1e6}, {'G', 1e9}}};
  for (const auto& [letter, factor] : kMultiples) {
    if (text.empty() || text.front() != letter) continue;
    text.remove_prefix(1);
    return factor;
  }
  return 1;
}

// Falls from 1 to 0 along half a cosine wave.
double half_wave(double progress) { return (1 + std::cos(std::numbers::pi * progress)) / 2; }

// A height between the lowest rate (level 0; `lowest` is a fraction of the peak) and the peak (level 1).
struct Height {
  double lowest = 0, level = 1;
  double factor() const { return lowest + (1 - lowest) * level; }
};

struct Cycle {
  double before = 0, progress = 0;  // number of completed cycles; completed share of the current cycle
};

Cycle cycle_at(double samples, double length, std::int64_t growth) {
  if (length <= 0) return {};
  if (growth == 1) {
    const double before = std::floor(samples / length);
    return {before, samples / length - before};
  }
  double before = 0;
  for (; samples >= length; ++before) {
    samples -= length;
    length *= static_cast<double>(growth);
  }
  return {before, samples / length};
}

// The height for the update that begins after `samples_before` samples. Inside, samples count from the end of the warm-up.
Height height_at(const Schedule& schedule, const RunLength& run, std::int64_t samples_before) {
  const double warmup = in_samples(schedule.warmup, run);
  const double samples = std::max(0.0, static_cast<double>(samples_before) - warmup);
  const double total = std::max(0.0, static_cast<double>(run.updates) * static_cast<double>(run.effective_batch) - warmup);
  const double progress = total > 0 ? std::clamp(samples / total, 0.0, 1.0) : 0.0, lowest = schedule.final_fraction;
  const auto cycle = [&] { return cycle_at(samples, in_samples(schedule.cycle, run), schedule.cycle_growth); };
  const auto triangle = [](double at) { return 1 - std::abs(2 * at - 1); };
  switch (schedule.kind) {
    case ScheduleKind::constant:
    case ScheduleKind::plateau: return {lowest, 1};
    case ScheduleKind::linear: return {lowest, 1 - progress};
    case ScheduleKind::cosine: return {lowest, half_wave(progress)};
    case ScheduleKind::polynomial: return {lowest, std::pow(1 - progress, schedule.power)};
    case ScheduleKind::cosine_restarts: return {lowest, half_wave(cycle().progress)};
    case ScheduleKind::triangular: return {lowest, triangle(cycle().progress)};
    case ScheduleKind::triangular2: return {lowest, triangle(cycle().progress) * std::exp2(-cycle().before)};
    case ScheduleKind::one_cycle: {
      // The last update of each phase reaches its end, as in PyTorch.
      const double batch = static_cast<double>(run.effective_batch);
      const double peak = std::max(0.0, schedule.peak_at * total - batch), end = std::max(peak, total - batch);
      if (samples < peak) return {schedule.start_fraction, half_wave(1 - samples / peak)};
      return {lowest, half_wave(end > peak ? std::min(1.0, (samples - peak) / (end - peak)) : 0)};
    }
    case ScheduleKind::wsd: {
      const double decay = std::min(in_samples(schedule.decay, run), total);
      if (decay <= 0 || samples <= total - decay) return {lowest, 1};
      const double over = std::min(1.0, (samples - (total - decay)) / decay);
      return {lowest, 1 - (schedule.decay_shape == DecayShape::sqrt ? std::sqrt(over) : over)};
    }
  }
  return {};
}

}  // namespace

Duration parse_duration(std::string_view text, std::int64_t updates, const std::string& where) {
  const auto refuse = [&](const char* code, const char* why) {
    return config_error(code, where, fmt::format("'{}' is not a length of training: {}", text, why),
                        "\"100updates\", \"20000samples\", \"1Mtokens\" or \"3%\"");
  };
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !std::isfinite(number)) throw refuse("E-CONFIG-VALUE", "it does not start with a number");
  if (number < 0) throw refuse("E-CONFIG-RANGE", "it is negative");
  std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  skip_spaces(rest);
  if (rest == "%") {
    if (number > 100) throw refuse("E-CONFIG-RANGE", "it is longer than the run");
    return {static_cast<std::int64_t>(std::ceil(number / 100 * static_cast<double>(updates))), ClockUnit::updates};
  }
  number *= take_multiple(rest);
  skip_spaces(rest);
  const std::optional<ClockUnit> unit = find_unit(rest);
  if (!unit) throw refuse("E-CONFIG-VALUE", "the unit is unknown");
  if (number > kMaxAmount) throw refuse("E-CONFIG-RANGE", "it is past 2^53");
  if (number != std::floor(number)) throw refuse("E-CONFIG-VALUE", "it is not a whole number");
  return {static_cast<std::int64_t>(number), *unit};
}

std::string to_text(const Duration& duration) {
  constexpr std::array kNames{"updates", "samples", "tokens"};
  return fmt::format("{}{}", duration.amount, kNames[static_cast<std::size_t>(duration.unit)]);
}

double in_samples(const Duration& duration, const RunLength& run) {
  const double amount = static_cast<double>(duration.amount);
  switch (duration.unit) {
    case ClockUnit::updates: return amount * static_cast<double>(run.effective_batch);
    case ClockUnit::samples: return amount;
    case ClockUnit::tokens: return amount / static_cast<double>(run.context);
  }
  return amount;
}

std::int64_t in_updates(const Duration& duration, const RunLength& run) {
  return static_cast<std::int64_t>(std::ceil(in_samples(duration, run) / static_cast<double>(run.effective_batch)));
}

double schedule_factor(const Schedule& schedule, const RunLength& run, std::int64_t samples_before) {
  const double factor = height_at(schedule, run, samples_before).factor(), warmup = in_samples(schedule.warmup, run);
  const double after = static_cast<double>(samples_before) + static_cast<double>(run.effective_batch);
  return after < warmup ? after / warmup * factor : factor;
}

double scheduled_momentum(const Schedule& schedule, const RunLength& run, std::int64_t samples_before, double usual) {
  if (!schedule.momentum) return usual;
  const auto [slow, fast] = *schedule.momentum;
  return slow + (fast - slow) * height_at(schedule, run, samples_before).level;
}

}  // namespace plimsoll
