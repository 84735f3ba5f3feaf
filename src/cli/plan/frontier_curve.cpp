#include "cli/plan/frontier_curve.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

namespace plimsoll {
namespace {

using nlohmann::json;

struct Unit {
  double size;
  const char* name;
};

constexpr double kLogarithmicFrom = 3;  // highest / lowest value from which the axis is logarithmic
constexpr Unit kByteUnits[] = {{1024.0 * 1024 * 1024, "GiB"}, {1024.0 * 1024, "MiB"}, {1024, "KiB"}};
constexpr Unit kTimeUnits[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}};

Unit unit_for(double high, std::span<const Unit> units) {
  for (const Unit& unit : units) {
    if (high >= unit.size) return unit;
  }
  return units.back();
}

// The smallest step of 1, 2 or 5 times a power of ten with at most `most` ticks.
double round_step(double span, int most) {
  const double least = span / most;
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least) return factor * power;
  }
  return 10 * power;
}

// The smallest power of two with at most `most` ticks: for sizes, 256 MiB are rounder than 200.
double round_size_step(double span, int most) {
  double step = std::exp2(std::ceil(std::log2(span / most)));
  while (span / step > most) step *= 2;
  return step;
}

Axis axis_of(double low, double high, int most, std::span<const Unit> units, double (*round)(double, int)) {
  constexpr double kFromZeroBelow = 0.6;  // lowest / highest value up to which the axis begins at 0
  if (low <= kFromZeroBelow * high) low = 0;
  // A single point lies in the middle.
  if (high <= low) {
    const double pad = std::max(0.05 * std::abs(low), 1e-9);
    low -= pad;
    high += pad;
  }
  const Unit unit = unit_for(high, units);
  const double step = round((high - low) / unit.size, most) * unit.size;
  low = step * std::floor(low / step + 1e-9);
  high = step * std::ceil(high / step - 1e-9);
  const double shown = step / unit.size;
  int decimals = 0;
  while (decimals < 9 && std::abs(std::round(shown * std::pow(10, decimals)) - shown * std::pow(10, decimals)) > 1e-6) ++decimals;
  Axis axis{low, high, {}};
  for (int i = 0; low + i * step <= high + step / 2; ++i) {
    axis.ticks.push_back({low + i * step, fmt::format("{:.{}f} {}", (low + i * step) / unit.size, decimals, unit.name)});
  }
  return axis;
}

// Ticks at powers of two: with 1.5 times the powers in between if these are few, or at every second or third power if they are
// many.
Axis logarithmic_axis(double low, double high, int most) {
  const double octaves = std::log2(high / low);
  const int stride = std::max(1, static_cast<int>(std::ceil(octaves / most)));
  Axis axis{low, high, {}, true};
  for (int power = static_cast<int>(std::floor(std::log2(low))); std::exp2(power) <= high; power += stride) {
    for (const double value : {std::exp2(power), 1.5 * std::exp2(power)}) {
      if (value < low || value > high || (value > std::exp2(power) && 2 * octaves > most)) continue;
      const Unit unit = unit_for(value, kByteUnits);
      axis.ticks.push_back({value, fmt::format("{:g} {}", value / unit.size, unit.name)});
    }
  }
  return axis;
}

// The point of a budget: the last one that fits it.
std::size_t point_within(const std::vector<CurvePoint>& points, Bytes budget) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < points.size() && points[i].memory <= budget; ++i) found = i;
  return found;
}

}  // namespace

Curve curve_of(const json& plan) {
  Curve curve;
  const json& subject = plan.at("subject");
  const std::string samples = plan.contains("words")
                                  ? plan.at("words").at("sample").get<std::string>() + "s"
                                  : fmt::format("samples of {} tokens", subject.at("context").get<std::int64_t>());
  curve.title = fmt::format("{}, {} {} an update, {} ({} threads)", subject.at("model").get<std::string>(),
                            subject.at("effective_batch").get<std::int64_t>(), samples, subject.at("machine").get<std::string>(),
                            subject.at("threads").get<int>());
  if (const json& budget = plan.at("budget").at("memory"); budget.is_number()) curve.budget = Bytes{budget.get<std::int64_t>()};
  for (const json& point : plan.at("frontier")) {
    curve.points.push_back({Bytes{point.at("process_bytes").get<std::int64_t>()}, point.at("update_seconds").get<double>()});
  }
  const auto mark = [&](char letter, const char* name, const json& bytes) {
    curve.marks.push_back({letter, name, point_within(curve.points, Bytes{bytes.get<std::int64_t>()})});
  };
  const json& bounds = plan.at("bounds");
  mark('F', "floor", bounds.at("floor_bytes"));
  mark('K', "knee", bounds.at("knee_bytes"));
  mark('C', "ceiling", bounds.at("ceiling_bytes"));
  if (plan.at("status") == "fits") mark('@', "this plan", plan.at("predicted").at("process_bytes"));
  return curve;
}

double Axis::share(double value) const {
  return logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
}

Axis memory_axis(const Curve& curve, int most) {
  constexpr double kNear = 1.5;  // times the ends of the curve
  double low = static_cast<double>(curve.points.front().memory.n), high = static_cast<double>(curve.points.back().memory.n);
  if (curve.budget) {
    const auto budget = static_cast<double>(curve.budget->n);
    if (budget <= kNear * high) high = std::max(high, budget);
    if (budget * kNear >= low) low = std::min(low, budget);
  }
  return high > kLogarithmicFrom * low ? logarithmic_axis(low, high, most)
                                       : axis_of(low, high, most, kByteUnits, round_size_step);
}

// The last point is the fastest, as more memory is faster.
Axis time_axis(const Curve& curve, int most) {
  return axis_of(curve.points.back().seconds, curve.points.front().seconds, most, kTimeUnits, round_step);
}

}  // namespace plimsoll
