#include "report/axis.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/bytes.h"
#include "report/html.h"

namespace plimsoll {
namespace {

constexpr double kWide = 30;  // ratio of the ends from which an axis is logarithmic

// 1, 2 or 5 times a power of ten, or for bytes 1, 2, 4, ... of a unit.
double round_step(double least, NumberKind kind) {
  if (kind == NumberKind::bytes) return std::exp2(std::ceil(std::log2(std::max(least, 1.0))));
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

}  // namespace

double Scale::share(double value) const {
  const double share = logarithmic ? (std::log(std::max(value, low)) - std::log(low)) / (std::log(high) - std::log(low))
                                   : (value - low) / (high - low);
  return std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0;
}

Scale scale_of(double low, double high, bool from_zero, bool may_be_logarithmic) {
  if (!std::isfinite(low) || !std::isfinite(high)) return {};
  if (may_be_logarithmic && low > 0 && high / low >= kWide) {
    return {low / std::pow(high / low, 0.03), high * std::pow(high / low, 0.03), true};
  }
  if (from_zero) low = std::min(low, 0.0);
  if (high <= low) {
    const double room = std::max(std::abs(high) * 0.1, 1e-12);
    return from_zero ? Scale{low, high + room, false} : Scale{low - room, high + room, false};
  }
  const double margin = 0.04 * (high - low);
  return {from_zero && low == 0 ? 0 : low - margin, high + margin, false};
}

std::vector<AxisTick> ticks_of(const Scale& scale, int most, NumberKind kind) {
  std::vector<AxisTick> ticks;
  if (scale.logarithmic) {
    const double decades = std::log10(scale.high / scale.low);
    const double every = std::max(1.0, std::ceil(decades / most));
    const bool fine = decades < 2.5 && kind != NumberKind::bytes;
    for (double power = std::floor(std::log10(scale.low)); power <= std::log10(scale.high); power += every) {
      for (const double factor : {1.0, 3.0}) {
        const double value = factor * std::pow(10, power);
        if ((factor > 1 && !fine) || value < scale.low || value > scale.high) continue;
        ticks.push_back({scale.share(value), axis_number(value, kind)});
      }
    }
    return ticks;
  }
  double step = round_step((scale.high - scale.low) / most, kind);
  if (kind == NumberKind::count) step = std::max(step, 1.0);
  for (double number = std::ceil(scale.low / step - 1e-9); number * step <= scale.high + 1e-9 * step && ticks.size() < 50;
       ++number) {
    const double value = number * step;
    ticks.push_back({scale.share(value), axis_number(std::abs(value) < 1e-9 * step ? 0 : value, kind)});
  }
  return ticks;
}

std::string axis_number(double value, NumberKind kind) {
  switch (kind) {
    case NumberKind::count: {
      if (std::abs(value) >= 1e9) return fmt::format("{:g}G", value / 1e9);
      if (std::abs(value) >= 1e6) return fmt::format("{:g}M", value / 1e6);
      return std::abs(value) >= 1e4 ? fmt::format("{:g}k", value / 1e3) : fmt::format("{:g}", value);
    }
    case NumberKind::seconds: return time_text(value);
    case NumberKind::bytes: {
      if (value <= 0) return "0";
      static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
      std::size_t unit = 0;
      while (value >= 1024 && unit + 1 < std::size(kUnits)) value /= 1024, ++unit;
      return fmt::format("{:.4g} {}", value, kUnits[unit]);
    }
    case NumberKind::plain: break;
  }
  return fmt::format("{:.4g}", value);
}

}  // namespace plimsoll
