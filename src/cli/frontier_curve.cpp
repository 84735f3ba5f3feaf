#include "cli/frontier_curve.h"

#include <fmt/format.h>

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

constexpr double kLogarithmicFrom = 3;  // times the lowest value
constexpr Unit kByteUnits[] = {{1024.0 * 1024 * 1024, "GiB"}, {1024.0 * 1024, "MiB"}, {1024, "KiB"}};
constexpr Unit kTimeUnits[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}};

Unit unit_for(double high, std::span<const Unit> units) {
  for (const Unit& unit : units) {
    if (high >= unit.size) return unit;
  }
  return units.back();
}

// 1, 2 or 5 times a power of ten, the smallest that gives at most `most` ticks.
double round_step(double span, int most) {
  const double least = span / most;
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least) return factor * power;
  }
  return 10 * power;
}

Axis axis_of(double low, double high, int most, std::span<const Unit> units) {
  // One point alone lies in the middle.
  if (high <= low) {
    const double pad = std::max(0.05 * std::abs(low), 1e-9);
    low -= pad;
    high += pad;
  }
  const Unit unit = unit_for(high, units);
  const double step = round_step((high - low) / unit.size, most);
  const int decimals = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
  Axis axis{low, high, {}};
  for (double i = std::ceil(low / unit.size / step); i * step * unit.size <= high; ++i) {
    axis.ticks.push_back({i * step * unit.size, fmt::format("{:.{}f} {}", i * step, decimals, unit.name)});
  }
  return axis;
}

// Ticks at powers of two, every second or third of them where there are many.
Axis logarithmic_axis(double low, double high, int most) {
  const int first = static_cast<int>(std::ceil(std::log2(low))), last = static_cast<int>(std::floor(std::log2(high)));
  const int stride = std::max(1, (last - first + most) / most);
  Axis axis{low, high, {}, true};
  for (int power = first; power <= last; power += stride) {
    const double value = std::exp2(power);
    const Unit unit = unit_for(value, kByteUnits);
    axis.ticks.push_back({value, fmt::format("{:.0f} {}", value / unit.size, unit.name)});
  }
  return axis;
}

// What a budget gets: the largest point that is no larger.
std::size_t point_within(const std::vector<CurvePoint>& points, Bytes budget) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < points.size() && points[i].memory <= budget; ++i) found = i;
  return found;
}

}  // namespace

Curve curve_of(const json& plan) {
  Curve curve;
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
  const double low = static_cast<double>(curve.points.front().memory.n), high = static_cast<double>(curve.points.back().memory.n);
  return high > kLogarithmicFrom * low ? logarithmic_axis(low, high, most) : axis_of(low, high, most, kByteUnits);
}

// More memory is faster: the last point is the fastest.
Axis time_axis(const Curve& curve, int most) {
  return axis_of(curve.points.back().seconds, curve.points.front().seconds, most, kTimeUnits);
}

}  // namespace plimsoll
