// Values of keys that are lengths of training, times, or counts of updates.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "config/config.h"
#include "config/key_access.h"

namespace plimsoll {

inline constexpr std::int64_t kMaxUpdates = std::int64_t{1} << 36;

bool says_none(const Setting& s);
// `text`: "20%", "500updates".
Duration length(const Config& c, const Setting& s, std::string_view text);
// The same of a setting; a number counts updates.
Duration duration(const Config& c, const Setting& s);

// "90s", "10m" or "2h", in quotes.
std::string seconds_text(std::int64_t seconds);
// A time, or a number of updates.
SaveInterval save_interval(const Setting& setting);
std::string save_text(const SaveInterval& every);
// A time, or a number of seconds.
std::int64_t wait_seconds(const Setting& setting);

void set_half_lives(Config& c, const Setting& s);
std::string half_lives_text(const Config& c);

template <class Field>
KeyAccess length_at(Field field) {
  return {[=](Config& c, const Setting& s) { field(c) = duration(c, s); },
          [=](const Config& c) { return toml_text(to_text(field(c))); }};
}

// A number of updates stays a number.
template <class Field>
KeyAccess updates_or_length_at(Field field) {
  return {[=](Config& c, const Setting& s) { field(c) = duration(c, s); },
          [=](const Config& c) {
            const Duration& length = field(c);
            return length.unit == ClockUnit::updates ? shown(length.amount) : toml_text(to_text(length));
          }};
}

}  // namespace plimsoll
