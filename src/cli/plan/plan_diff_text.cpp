#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/bytes.h"
#include "cli/plan/plan_diff.h"
#include "cli/progress.h"

namespace plimsoll {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMostValues = 10, kHashLetters = 12;

struct PlanChange {
  std::vector<std::string> path;  // "predicted", "reserve", "threads"
  ordered_json a, b;
};

PlanChange change_from(const ordered_json& change) {
  PlanChange result{{}, change.at("a"), change.at("b")};
  ordered_json::json_pointer pointer(change.at("path").get<std::string>());
  for (; !pointer.empty(); pointer.pop_back()) result.path.push_back(pointer.back());
  std::reverse(result.path.begin(), result.path.end());
  return result;
}

bool starts(const PlanChange& change, std::initializer_list<const char*> keys) {
  std::size_t i = 0;
  for (const char* key : keys) {
    if (i >= change.path.size() || change.path[i++] != key) return false;
  }
  return true;
}

// The path as words: keys of the plan lose unit and underscores; names of blocks and owners stay.
std::string title_of(const PlanChange& change, std::size_t from) {
  std::string text;
  for (std::size_t i = from; i < change.path.size(); ++i) {
    std::string word = change.path[i];
    if (word == "owners") continue;
    for (const char* unit : {"_bytes", "_seconds"}) {
      if (word.ends_with(unit)) word.resize(word.size() - std::string_view(unit).size());
    }
    std::replace(word.begin(), word.end(), '_', ' ');
    text += (text.empty() ? "" : ": ") + word;
  }
  return text;
}

enum class Measure { bytes, seconds, rate, hash, plain };

Measure measure_of(const PlanChange& change) {
  const std::string& last = change.path.back();
  if (last.ends_with("_seconds")) return Measure::seconds;
  if (last == "tokens_per_second") return Measure::rate;
  if (last.ends_with("_hash")) return Measure::hash;
  const bool sizes = starts(change, {"budget"}) || starts(change, {"bounds"}) || starts(change, {"predicted"});
  return sizes ? Measure::bytes : Measure::plain;
}

std::string shown(const ordered_json& value, Measure measure) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value.get<std::string>().substr(0, measure == Measure::hash ? kHashLetters : std::string::npos);
  if (!value.is_number() || measure == Measure::plain) return value.dump();
  if (measure == Measure::bytes) return to_text(Bytes{value.get<std::int64_t>()});
  return measure == Measure::seconds ? duration_text(value.get<double>()) : rate_text(value.get<double>());
}

// The difference in bytes or percent. Absent bytes count as 0; for an absent time there is no difference.
std::string difference(const PlanChange& change, Measure measure) {
  const auto number = [](const ordered_json& value) { return value.is_null() ? 0.0 : value.get<double>(); };
  const bool numbers = (change.a.is_number() || change.a.is_null()) && (change.b.is_number() || change.b.is_null());
  if (!numbers || measure == Measure::plain || measure == Measure::hash) return "";
  const double a = number(change.a), b = number(change.b);
  if (measure != Measure::bytes) return a > 0 && b > 0 ? fmt::format("{:+.1f} %", 100 * (b / a - 1)) : "";
  return fmt::format("{}{}", b < a ? "-" : "+", to_text(Bytes{static_cast<std::int64_t>(b < a ? a - b : b - a)}));
}

std::string row(const PlanChange& change, std::size_t from) {
  const Measure measure = measure_of(change);
  const std::string text = fmt::format("  {:<36} {:>15} {:>15}{:>14}", title_of(change, from), shown(change.a, measure),
                                       shown(change.b, measure), difference(change, measure));
  return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
}

std::string section(const std::vector<PlanChange>& changes, const std::string& title, std::initializer_list<const char*> keys) {
  std::string text;
  for (const PlanChange& change : changes) {
    if (starts(change, keys)) text += row(change, keys.size());
  }
  return text.empty() ? text : title + "\n" + text;
}

// The differences of hashes and threads.
std::string identity_section(const std::vector<PlanChange>& changes) {
  std::string text;
  for (const PlanChange& change : changes) {
    if (change.path.size() == 1) text += row(change, 0);
  }
  return text.empty() ? text : "plan\n" + text;
}

std::vector<PlanChange> without(std::vector<PlanChange> changes, std::initializer_list<const char*> keys) {
  std::erase_if(changes, [&](const PlanChange& change) { return starts(change, keys); });
  return changes;
}

std::string word(const ordered_json& mode) { return mode.is_null() ? "absent" : mode.get<std::string>(); }

// The differences of blocks; neighbours with the same change share a line.
std::string blocks_section(const std::vector<PlanChange>& changes) {
  std::vector<const PlanChange*> blocks;
  for (const PlanChange& change : changes) {
    if (starts(change, {"decisions", "recompute"})) blocks.push_back(&change);
  }
  std::string text;
  for (std::size_t i = 0; i < blocks.size();) {
    std::size_t end = i + 1;
    while (end < blocks.size() && blocks[end]->a == blocks[i]->a && blocks[end]->b == blocks[i]->b) ++end;
    const std::string first = blocks[i]->path.back(), last = blocks[end - 1]->path.back();
    text += fmt::format("  {:<36} {} -> {}\n", end - i == 1 ? first : fmt::format("{} to {} ({})", first, last, end - i),
                        word(blocks[i]->a), word(blocks[i]->b));
    i = end;
  }
  return text.empty() ? text : "blocks\n" + text;
}

std::string predicted_section(const std::vector<PlanChange>& changes) {
  std::vector<std::string> phases;
  for (const PlanChange& change : changes) {
    const bool phase = starts(change, {"predicted", "phases"});
    if (phase && std::ranges::find(phases, change.path[2]) == phases.end()) phases.push_back(change.path[2]);
  }
  std::string text = section(without(changes, {"predicted", "phases"}), "predicted", {"predicted"});
  for (const std::string& phase : phases) text += section(changes, "phase " + phase, {"predicted", "phases", phase.c_str()});
  return text;
}

// The kind of a value's change; the first that applies.
const char* event_of(const PlanChange& change) {
  if (change.a.is_null()) return "appeared";
  if (change.b.is_null()) return "vanished";
  if (change.a.at("bytes") != change.b.at("bytes")) return "resized";
  return change.a.at("action") != change.b.at("action") ? "changed" : "moved";
}

const ordered_json& present(const PlanChange& change) { return change.b.is_null() ? change.a : change.b; }

std::int64_t bytes_of(const PlanChange& change) {
  const auto bytes = [](const ordered_json& side) { return side.is_null() ? 0 : side.at("bytes").get<std::int64_t>(); };
  return std::max(bytes(change.a), bytes(change.b));
}

std::string place(const ordered_json& value) {
  if (value.is_null()) return "-";
  const ordered_json& offset = value.at("offset");
  return fmt::format("{} at {} on {}", to_text(Bytes{value.at("bytes").get<std::int64_t>()}), offset.dump(),
                     value.at("tier").get<std::string>());
}

std::string counts_text(const std::vector<PlanChange>& values) {
  constexpr const char* kEvents[] = {"moved", "resized", "changed", "appeared", "vanished"};
  std::map<std::string, std::map<std::string, int>> counts;  // number of values by action and event
  for (const PlanChange& change : values) ++counts[present(change).at("action").get<std::string>()][event_of(change)];
  std::string text = fmt::format("{:<40}", "values by action");
  for (const char* event : kEvents) text += fmt::format("{:>10}", event);
  text += "\n";
  for (auto& [action, by_event] : counts) {
    text += fmt::format("  {:<38}", action);
    for (const char* event : kEvents) text += fmt::format("{:>10}", by_event[event]);
    text += "\n";
  }
  return text;
}

std::string values_section(const std::vector<PlanChange>& values) {
  if (values.empty()) return "";
  std::vector<const PlanChange*> largest;
  for (const PlanChange& change : values) largest.push_back(&change);
  std::stable_sort(largest.begin(), largest.end(), [](auto* x, auto* y) { return bytes_of(*x) > bytes_of(*y); });
  largest.resize(std::min(largest.size(), kMostValues));
  std::string text = counts_text(values) + "the largest of them\n";
  for (const PlanChange* change : largest) {
    text += fmt::format("  {:<38}  {:<9} {} -> {}\n", change->path.back(), event_of(*change), place(change->a), place(change->b));
  }
  return text;
}

}  // namespace

std::string diff_text(const ordered_json& diff) {
  std::vector<PlanChange> facts, values;
  for (const ordered_json& element : diff.at("changes")) {
    PlanChange change = change_from(element);
    (starts(change, {"values"}) ? values : facts).push_back(std::move(change));
  }
  const std::string note = diff.at("values_compared").get<bool>() ? "" : "values are not compared: both files need them\n";
  if (facts.empty() && values.empty()) return "the plans are equal\n" + note;
  std::string text = fmt::format("{:<38} {:>15} {:>15}{:>14}\n", "", "a", "b", "b - a");
  text += identity_section(facts) + section(facts, "precision", {"precision"}) + section(facts, "budget", {"budget"});
  text += section(facts, "batch", {"batch"}) + blocks_section(facts);
  text += section(without(facts, {"decisions", "recompute"}), "decisions", {"decisions"}) + predicted_section(facts);
  return text + section(facts, "bounds", {"bounds"}) + values_section(values) + note;
}

}  // namespace plimsoll
