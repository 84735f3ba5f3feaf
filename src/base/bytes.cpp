#include "base/bytes.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace plimsoll {
namespace {

// Lower-case names; case does not matter.
constexpr std::array<std::pair<std::string_view, double>, 14> kUnits{{{"", 1},
                                                                      {"b", 1},
                                                                      {"kib", 0x1p10},
                                                                      {"mib", 0x1p20},
                                                                      {"gib", 0x1p30},
                                                                      {"tib", 0x1p40},
                                                                      {"kb", 1e3},
                                                                      {"mb", 1e6},
                                                                      {"gb", 1e9},
                                                                      {"tb", 1e12},
                                                                      {"k", 0x1p10},
                                                                      {"m", 0x1p20},
                                                                      {"g", 0x1p30},
                                                                      {"t", 0x1p40}}};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_letters(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace

Bytes parse_bytes(std::string_view text, std::string_view where) {
  const auto refuse = [&](const char* why) {
    return config_error("E-CONFIG-SIZE", std::string(where), fmt::format("'{}' is not a size: {}", text, why),
                        "a number with a unit: 512MiB, 2GiB, 2GB, or bytes: 1500000000");
  };
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !std::isfinite(number)) throw refuse("it does not start with a number");
  if (number < 0) throw refuse("it is negative");
  std::string_view unit(end, text.data() + text.size() - end);
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  for (const auto& [name, factor] : kUnits) {
    if (!same_letters(unit, name)) continue;
    const double bytes = std::floor(number * factor);
    if (bytes >= 0x1p62) throw refuse("it is past 4 EiB");
    if (bytes == 0 && number > 0) throw refuse("it is less than one byte");
    return Bytes{static_cast<std::int64_t>(bytes)};
  }
  throw refuse("the unit is unknown");
}

std::string to_text(Bytes size) {
  const double n = static_cast<double>(size.n);
  const double magnitude = std::abs(n);
  if (magnitude >= 0x1p40) return fmt::format("{:.2f} TiB", n / 0x1p40);
  if (magnitude >= 0x1p30) return fmt::format("{:.2f} GiB", n / 0x1p30);
  if (magnitude >= 0x1p20) return fmt::format("{:.1f} MiB", n / 0x1p20);
  if (magnitude >= 0x1p10) return fmt::format("{:.1f} KiB", n / 0x1p10);
  return fmt::format("{} B", size.n);
}

}  // namespace plimsoll
