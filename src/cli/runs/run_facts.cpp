#include "cli/runs/run_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "cli/progress.h"
#include "cli/shown_text.h"
#include "config/config_keys.h"
#include "formats/utf8.h"
#include "records/best_weights.h"
#include "records/run_note.h"

namespace plimsoll {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 14> kKeys{"name", "path",  "id",   "state", "updates", "samples", "loss",
                                                 "best", "batch", "rate", "time",  "process", "note",    "begun"};

std::string unquoted(const std::string& text) {
  const json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_string() ? value.get<std::string>() : text;
}

std::optional<std::string> of_number(std::optional<double> number) {
  return number ? std::optional(fmt::format("{}", *number)) : std::nullopt;
}

template <class Value>
json or_null(const std::optional<Value>& value) {
  return value ? json(*value) : json();
}

// The number of characters; bytes that are not UTF-8 count as one each.
std::size_t characters(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

// The text with its middle left out. Cuts at characters.
std::string shortened(const std::string& text, std::size_t most) {
  if (characters(text) <= most) return text;
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((text[i] & 0xc0) != 0x80) starts.push_back(i);
  }
  const std::size_t left = (most - 1) / 2, right = most - 1 - left;
  return text.substr(0, starts[left]) + "…" + text.substr(starts[starts.size() - right]);
}

}  // namespace

ListedRun listed_run(const std::filesystem::path& folder) {
  ListedRun listed{.run = read_run(folder), .settings = settings_of_run(folder), .note = note_of_run(folder)};
  const auto rate = listed.settings.find("optimizer.learning_rate");
  if (rate != listed.settings.end()) listed.learning_rate = number_in(rate->second);
  return listed;
}

std::span<const std::string_view> run_fact_keys() { return kKeys; }

std::optional<double> number_in(const std::string& text) {
  double number = 0;
  const char* begin = text.data();
  const char* end = begin + text.size();
  if (begin != end && *begin == '+') ++begin;
  const auto [stop, error] = std::from_chars(begin, end, number);
  return error == std::errc{} && stop == end && begin != end ? std::optional(number) : std::nullopt;
}

std::optional<std::string> run_fact(const ListedRun& listed, const std::string& key) {
  const Run& run = listed.run;
  if (key == "name") return run.name;
  if (key == "path") return run.path.string();
  if (key == "id") return run.id;
  if (key == "state") return state_text(run);
  if (key == "updates") return std::to_string(run.updates);
  if (key == "samples") return std::to_string(run.samples);
  if (key == "loss") return of_number(run.loss);
  if (key == "best") return run.best ? of_number(run.best->loss) : std::nullopt;
  if (key == "batch") return std::to_string(run.effective_batch);
  if (key == "rate") return of_number(listed.learning_rate);
  if (key == "time") return of_number(run.seconds);
  if (key == "process") return run.measured.process ? std::optional(std::to_string(run.measured.process->n)) : std::nullopt;
  if (key == "note") return listed.note;
  if (key == "begun") return run.segments.empty() ? std::nullopt : std::optional(run.segments.front().begun);
  const auto found = listed.settings.find(key);
  return found != listed.settings.end() ? std::optional(unquoted(found->second)) : std::nullopt;
}

void check_run_key(const std::string& key, const std::string& option) {
  std::vector<std::string> names(kKeys.begin(), kKeys.end());
  for (const ConfigKey& each : config_keys()) names.emplace_back(each.name);
  if (std::ranges::find(names, key) != names.end()) return;
  const std::string nearest = nearest_name(key, names);
  throw config_error("E-USAGE", option, fmt::format("there is no fact or setting '{}'", key),
                     nearest.empty()
                         ? "name, state, updates, loss, best, batch, rate, time, process, or a key of the configuration"
                         : fmt::format("perhaps '{}'", nearest));
}

json run_json(const ListedRun& listed) {
  const Run& run = listed.run;
  json best;
  if (run.best) best = to_json(*run.best);
  const bool speed = run.seconds > 0 && run.units > 0;
  return {{"name", run.name},
          {"path", run.path.string()},
          {"id", run.id.empty() ? json() : json(run.id)},
          {"status", run.status.empty() ? json() : json(run.status)},
          {"exit_code", or_null(run.exit_code)},
          {"code", run.error_code.empty() ? json() : json(run.error_code)},
          {"begun", run.segments.empty() ? json() : json(run.segments.front().begun)},
          {"updates", run.updates},
          {"samples", run.samples},
          {"loss", run.loss && std::isfinite(*run.loss) ? json(*run.loss) : json()},
          {"best", best},
          {"effective_batch", run.effective_batch},
          {"learning_rate", or_null(listed.learning_rate)},
          {"seconds", run.seconds},
          {"tokens_per_second", speed ? json(static_cast<double>(run.units) / run.seconds) : json()},
          {"process_bytes", run.measured.process ? json(run.measured.process->n) : json()},
          {"parent", run.parent ? json{{"run", run.parent->first}, {"update", run.parent->second}} : json()},
          {"note", listed.note}};
}

std::string state_text(const Run& run) { return run.status.empty() ? "unreadable" : run.status; }

std::string loss_text(std::optional<double> loss) {
  if (!loss || !std::isfinite(*loss)) return "-";
  return std::abs(*loss) < 1000 ? fmt::format("{:.4f}", *loss) : fmt::format("{:.2e}", *loss);
}

std::string table_text(std::vector<std::vector<std::string>> rows, int columns) {
  if (rows.empty()) return "";
  std::vector<std::size_t> widths(rows.front().size());
  for (auto& row : rows) {
    for (std::size_t i = 0; i < widths.size(); ++i) {
      row[i] = shown_text(row[i], ShownAs::line);
      widths[i] = std::max(widths[i], characters(row[i]));
    }
  }
  constexpr std::size_t kLeast = 8;
  std::size_t others = 0;
  for (std::size_t i = 1; i < widths.size(); ++i) others += widths[i] + 1;
  const std::size_t room = static_cast<std::size_t>(std::max(0, columns));
  widths[0] = std::min(widths[0], room > others + kLeast ? room - others : kLeast);
  std::string text;
  for (const auto& row : rows) {
    std::string line = shortened(row[0], widths[0]);
    line.append(widths[0] - characters(line), ' ');
    for (std::size_t i = 1; i < widths.size(); ++i) line += " " + std::string(widths[i] - characters(row[i]), ' ') + row[i];
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace plimsoll
