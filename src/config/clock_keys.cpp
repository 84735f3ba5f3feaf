#include "config/clock_keys.h"

#include <fmt/core.h>

#include <charconv>
#include <system_error>
#include <variant>
#include <vector>

namespace plimsoll {
namespace {

bool parses_as_count(std::string_view text) { return text.find_first_not_of("0123456789.") == std::string_view::npos; }

constexpr std::int64_t kMostSeconds = 366 * 24 * 3600;

// "90s", "10m" or "2h" in seconds.
std::int64_t seconds_of(const Setting& setting, const std::string* text, std::string_view expected) {
  std::int64_t amount = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), amount);
  const std::string_view unit(end, text->data() + text->size());
  const std::int64_t seconds = unit == "s" ? 1 : unit == "m" || unit == "min" ? 60 : unit == "h" ? 3600 : 0;
  if (error != std::errc{} || seconds == 0) throw type_error(setting, std::string(expected));
  if (amount < 1 || amount > kMostSeconds / seconds) {
    throw config_error("E-CONFIG-RANGE", setting.where, fmt::format("{} is {}", setting.name, *text), "from 1s to a year");
  }
  return amount * seconds;
}

// The text of a time, or null for a number.
const std::string* time_in(const Setting& setting) {
  const auto* text = std::get_if<std::string>(&setting.value);
  return text == nullptr || (setting.typed && parses_as_count(*text)) ? nullptr : text;
}

}  // namespace

std::string seconds_text(std::int64_t seconds) {
  if (seconds % 3600 == 0) return fmt::format("\"{}h\"", seconds / 3600);
  return seconds % 60 == 0 ? fmt::format("\"{}m\"", seconds / 60) : fmt::format("\"{}s\"", seconds);
}

bool says_none(const Setting& s) {
  const auto* text = std::get_if<std::string>(&s.value);
  return text != nullptr && *text == "none";
}

Duration length(const Config& c, const Setting& s, std::string_view text) {
  return parse_duration(text, c.train.updates, fmt::format("{} {}", s.where, s.name));
}

Duration duration(const Config& c, const Setting& s) {
  const bool whole_number = std::holds_alternative<std::int64_t>(s.value) || std::holds_alternative<double>(s.value);
  return length(c, s, whole_number ? shown(whole(s, 0, kMaxUpdates)) : text(s));
}

SaveInterval save_interval(const Setting& setting) {
  const std::string* text = time_in(setting);
  if (text == nullptr) return {.updates = whole(setting, 0, kMaxUpdates), .seconds = 0};
  return {.updates = 0, .seconds = seconds_of(setting, text, "a time as in \"90s\", \"10m\" or \"2h\", or a number of updates")};
}

std::string save_text(const SaveInterval& every) {
  return every.seconds == 0 ? shown(every.updates) : seconds_text(every.seconds);
}

std::int64_t wait_seconds(const Setting& setting) {
  const std::string* text = time_in(setting);
  if (text == nullptr) return whole(setting, 1, kMostSeconds);
  return seconds_of(setting, text, "a time as in \"90s\", \"10m\" or \"2h\", or a number of seconds");
}

void set_half_lives(Config& c, const Setting& s) {
  c.optimizer.half_lives.reset();
  if (says_none(s)) return;
  const auto* list = std::get_if<std::vector<std::string>>(&s.value);
  if (list == nullptr || list->size() != 2) throw type_error(s, "two lengths of training: [\"200samples\", \"400samples\"]");
  c.optimizer.half_lives = {length(c, s, (*list)[0]), length(c, s, (*list)[1])};
}

std::string half_lives_text(const Config& c) {
  const auto& pair = c.optimizer.half_lives;
  return pair ? fmt::format("[{}, {}]", toml_text(to_text((*pair)[0])), toml_text(to_text((*pair)[1]))) : "";
}

}  // namespace plimsoll
