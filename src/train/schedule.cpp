#include "train/schedule.h"

#include <fmt/format.h>

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

double shape(ScheduleKind kind, double progress) {
  switch (kind) {
    case ScheduleKind::constant: return 1;
    case ScheduleKind::linear: return 1 - progress;
    case ScheduleKind::cosine: return (1 + std::cos(std::numbers::pi * progress)) / 2;
  }
  return 1;
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

double schedule_factor(const Schedule& schedule, const RunLength& run, std::int64_t samples_before) {
  const double before = static_cast<double>(samples_before), batch = static_cast<double>(run.effective_batch);
  const double warmup = in_samples(schedule.warmup, run), total = static_cast<double>(run.updates) * batch;
  if (before + batch < warmup) return (before + batch) / warmup;
  const double progress = total > warmup ? std::clamp((before - warmup) / (total - warmup), 0.0, 1.0) : 0.0;
  return schedule.final_fraction + (1 - schedule.final_fraction) * shape(schedule.kind, progress);
}

}  // namespace plimsoll
