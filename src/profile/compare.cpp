#include "profile/compare.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "formats/bounded_json.h"

namespace plimsoll {
namespace {

using nlohmann::json;

Error not_a_profile(const std::string& path, const std::string& why) {
  return config_error("E-PROFILE-FILE", path, why, "a profile as JSON, written by this program",
                      {Remedy::of_command("profile CONFIG", {{"command.json"}})});
}

constexpr double kMost = 1e18;  // of each number, and of their sums

// The parts of a profile that are compared.
struct Side {
  std::map<std::pair<std::string, std::string>, double> seconds;  // by op and section; parts have no section
  std::map<std::string, double> bytes;                            // by owner
  double update_seconds = 0, live = 0;
};

double number(const json& value, const char* what, const std::string& path) {
  const double found = value.is_number() ? value.get<double>() : NAN;
  if (std::abs(found) <= kMost) return found;
  throw not_a_profile(path, fmt::format("{} is no number", what));
}

// The name of a row, on one line.
std::string name(const json& value, const char* what, const std::string& path) {
  std::string found = value.get<std::string>();
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  if (std::ranges::none_of(found, is_control)) return found;
  throw not_a_profile(path, fmt::format("{} has a control character", what));
}

Side side_of(const std::string& path, const json& profile) {
  try {
    Side side;
    side.update_seconds = number(profile.at("update_seconds"), "update_seconds", path);
    for (const json& op : profile.at("ops")) {
      side.seconds[{name(op.at("op"), "an op", path), name(op.at("section"), "a section", path)}] +=
          number(op.at("seconds"), "the seconds of an op", path);
    }
    const std::pair<const char*, const char*> parts[] = {
        {"copies", "waits for copies"}, {"data", "waits for data"}, {"feed", "feeding"}, {"other", "other"}};
    for (const auto& [key, name] : parts) side.seconds[{name, ""}] += number(profile.at("parts").at(key), key, path);
    double sum = 0;
    for (const auto& [what, seconds] : side.seconds) sum += seconds;
    if (std::abs(sum - side.update_seconds) > 1e-6 * std::max(1.0, std::abs(side.update_seconds))) {
      throw not_a_profile(path, fmt::format("its parts add up to {:g} s, the update took {:g} s", sum, side.update_seconds));
    }
    for (const json& value : profile.at("peak")) {
      const double bytes = number(value.at("bytes"), "the bytes of a value", path);
      if (bytes < 0) throw not_a_profile(path, "the bytes of a value are negative");
      side.bytes[name(value.at("owner"), "an owner", path)] += bytes;
      side.live += bytes;
    }
    if (side.live > kMost) throw not_a_profile(path, fmt::format("its values have {:g} bytes", side.live));
    return side;
  } catch (const json::exception& error) {
    throw not_a_profile(path, fmt::format("it is broken: {}", error.what()));
  }
}

template <class Key, class Name>
json rows_of(const std::map<Key, double>& a, const std::map<Key, double>& b, Name&& name) {
  std::map<Key, std::pair<double, double>> both;
  for (const auto& [key, value] : a) both[key].first = value;
  for (const auto& [key, value] : b) both[key].second = value;
  std::vector<std::pair<Key, std::pair<double, double>>> rows(both.begin(), both.end());
  std::ranges::stable_sort(rows, [](const auto& one, const auto& other) {
    const auto size = [](const auto& row) { return std::abs(row.second.second - row.second.first); };
    return size(one) > size(other);
  });
  json list = json::array();
  for (const auto& [key, sides] : rows) {
    if (sides.first == sides.second) continue;
    json row = name(key);
    row.update({{"a", sides.first}, {"b", sides.second}, {"difference", sides.second - sides.first}});
    list.push_back(std::move(row));
  }
  return list;
}

}  // namespace

json read_profile(const std::string& path) {
  constexpr JsonLimits kLimits{.bytes = 256 << 20, .values = 16'000'000};
  return read_own_object(path, kLimits, "plimsoll.profile/1", "a profile",
                         [&](const std::string& why) { return not_a_profile(path, why); });
}

json profile_diff(const std::string& path_a, const json& a, const std::string& path_b, const json& b) {
  const Side one = side_of(path_a, a), other = side_of(path_b, b);
  const auto sides = [](double first, double second) {
    return json{{"a", first}, {"b", second}, {"difference", second - first}};
  };
  json diff = {{"schema", "plimsoll.profile-diff/1"},
               {"update_seconds", sides(one.update_seconds, other.update_seconds)},
               {"peak_bytes", sides(one.live, other.live)}};
  diff["seconds"] = rows_of(one.seconds, other.seconds, [](const auto& key) {
    return json{{"what", key.first}, {"section", key.second.empty() ? json(nullptr) : json(key.second)}};
  });
  diff["bytes"] = rows_of(one.bytes, other.bytes, [](const std::string& owner) { return json{{"owner", owner}}; });
  return diff;
}

}  // namespace plimsoll
