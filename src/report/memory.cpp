#include "report/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <functional>
#include <map>
#include <string_view>

#include "base/text.h"
#include "records/checkpoints.h"
#include "report/figure.h"
#include "report/html.h"

namespace plimsoll {
namespace {

constexpr int kOther = 7;
constexpr const char* kReserve = "program, libraries, threads";
constexpr const char* kRest = "other";

struct Owner {
  std::string_view name;
  int colour;
};
// The lowest layer first: what lives long lies below.
constexpr std::array<Owner, 11> kOwners{{{"parameters", 0},
                                         {"optimizer state", 5},
                                         {"gradient accumulators", 2},
                                         {"pages", 6},
                                         {"cache", 6},
                                         {"statistics", 6},
                                         {"activations", 4},
                                         {"recomputed activations", 3},
                                         {"activation gradients", 1},
                                         {"kernel scratch", 8},
                                         {kRest, kOther}}};

std::string_view known_owner(std::string_view name) {
  const auto found = std::ranges::find(kOwners, name, &Owner::name);
  return found != kOwners.end() ? found->name : kRest;
}

// Of each stretch of points the one with the greatest sum: a picture has fewer columns than a plan has steps.
std::vector<std::size_t> columns_of(const PlannedSeries& series) {
  constexpr std::size_t kMostColumns = 360;
  const std::size_t count = series.steps.size();
  std::vector<std::size_t> columns;
  const auto sum = [&](std::size_t point) {
    double total = 0;
    for (const auto& [owner, levels] : series.owners) total += levels[point];
    return total;
  };
  for (std::size_t part = 0; part < std::min(count, kMostColumns); ++part) {
    std::size_t best = part * count / std::min(count, kMostColumns);
    for (std::size_t point = best; point < (part + 1) * count / std::min(count, kMostColumns); ++point) {
      if (sum(point) > sum(best)) best = point;
    }
    columns.push_back(best);
  }
  return columns;
}

// The phases that differ: with one round per window, `first` and `steady` are the same steps.
std::vector<PlannedSeries> shown_phases(const PlanFacts& plan) {
  std::vector<PlannedSeries> shown;
  for (const PlannedSeries& series : plan.timeline) {
    const bool again = std::ranges::any_of(shown, [&](const PlannedSeries& other) {
      return other.steps == series.steps && other.owners == series.owners && other.steps.size() > 1;
    });
    if (!again) shown.push_back(series);
  }
  return shown;
}

// The layers of the chart, the lowest first, with those owners that have bytes in a phase.
std::vector<Layer> layers_of(const std::vector<PlannedSeries>& phases, double reserve) {
  std::map<std::string_view, double> peaks;
  for (const PlannedSeries& series : phases) {
    for (const auto& [owner, levels] : series.owners) {
      double& peak = peaks[known_owner(owner)];
      peak = std::max(peak, std::ranges::max(levels));
    }
  }
  std::vector<Layer> layers;
  if (reserve > 0) layers.push_back({kReserve, kOther, reserve});
  for (const Owner& owner : kOwners) {
    if (peaks.contains(owner.name)) layers.push_back({std::string(owner.name), owner.colour, peaks[owner.name]});
  }
  return layers;
}

AreaPhase phase_of(const PlannedSeries& series, const std::vector<Layer>& layers, double reserve) {
  AreaPhase phase{series.phase, {}, std::vector<std::vector<double>>(layers.size()), series.steps.back() + 1};
  for (const std::size_t point : columns_of(series)) {
    phase.steps.push_back(series.steps[point]);
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
      double bytes = layers[layer].name == kReserve ? reserve : 0;
      for (const auto& [owner, levels] : series.owners) {
        if (known_owner(owner) == layers[layer].name) bytes += levels[point];
      }
      phase.levels[layer].push_back(bytes);
    }
  }
  phase.steps.front() = series.steps.front();  // the first column begins with its phase
  return phase;
}

void rule_of_arena(AreaChart& chart, const ReportedRun& reported) {
  const auto touched = reported.run.measured.arena;
  if (touched) chart.level.push_back({static_cast<double>(touched->n), "touched " + to_text(*touched), 8});
}

// The process, or its arena alone where that would be a thin line on top of the program and its libraries.
AreaChart timeline_chart(const ReportedRun& reported) {
  const PlanFacts& plan = reported.plan;
  std::int64_t besides = 0, peak = 0;
  for (const NamedBytes& item : plan.reserve) besides += item.bytes;
  for (const PlannedPhase& phase : plan.phases) peak = std::max(peak, phase.live.n);
  const bool arena_alone = besides > peak;
  const std::int64_t reserve = arena_alone ? 0 : besides;
  const std::vector<PlannedSeries> phases = shown_phases(plan);
  AreaChart chart;
  chart.id = "timeline", chart.title = "Planned memory over the steps", chart.height = 300;
  chart.y_name = arena_alone ? "arena, by owner" : "process, by owner";
  chart.layers = layers_of(phases, static_cast<double>(reserve));
  for (const PlannedSeries& series : phases) chart.phases.push_back(phase_of(series, chart.layers, static_cast<double>(reserve)));
  constexpr std::int64_t kNear = 3;  // times the peak
  const auto rule = [&](const std::string& name, std::optional<Bytes> bytes, int colour) {
    if (!bytes) return;
    const std::int64_t level = bytes->n - (arena_alone ? besides : 0);
    if (level > kNear * (peak + reserve)) {
      chart.notes.push_back(fmt::format("The {} of {} lies above the picture.", name, to_text(*bytes)));
    } else if (level > 0) {
      chart.level.push_back({static_cast<double>(level), fmt::format("{} {}", name, to_text(Bytes{level})), colour});
    }
  };
  rule("budget", reported.run.memory, 1);
  if (arena_alone) {
    rule_of_arena(chart, reported);
    chart.notes.push_back(
        fmt::format("The process needs {} more: the program, its libraries and threads.", to_text(Bytes{besides})));
  } else {
    rule("touched at most", reported.run.measured.process, 8);
  }
  chart.description =
      fmt::format("Planned bytes over the steps of each phase. The peak of the arena is {}.", to_text(Bytes{peak}));
  for (const PlannedPhase& phase : plan.phases) chart.description += fmt::format(" {}: {}.", phase.name, to_text(phase.live));
  return chart;
}

std::string budget_table(const ReportedRun& reported) {
  const Run& run = reported.run;
  const PlanFacts& plan = reported.plan;
  Table table("", {"", "budget", "planned", "touched"});
  table.row({"process", bytes_text(run.memory), bytes_text(run.predicted.process), bytes_text(run.measured.process)});
  table.row({"arena", "", bytes_text(run.predicted.arena), bytes_text(run.measured.arena)});
  if (run.host_memory) table.row({"host", bytes_text(run.host_memory), "", ""});
  for (std::size_t i = 1; i < plan.tiers.size(); ++i) {
    table.row({escaped(plan.tiers[i].name), plan.tiers[i].name == "disk" ? bytes_text(run.disk) : "",
               to_text(Bytes{plan.tiers[i].bytes}), ""});
  }
  std::string out = table.html();
  if (plan.floor && plan.knee && plan.ceiling) {
    out += fmt::format(
        "<p class=\"note\">With less memory: the floor is {}, within 3 % of the fastest from {} on, the fastest from {} "
        "on.</p>\n",
        to_text(*plan.floor), to_text(*plan.knee), to_text(*plan.ceiling));
  }
  if (run.grown_after_warmup && run.grown_after_warmup->n > 0) {
    out += fmt::format("<p class=\"note\">The process grew by {} after its warm-up.</p>\n", to_text(*run.grown_after_warmup));
  }
  return out;
}

// The owners of the phase with the highest peak, and the reserve.
std::string owners_table(const ReportedRun& reported) {
  const PlanFacts& plan = reported.plan;
  const auto peak = std::ranges::max_element(plan.phases, {}, &PlannedPhase::live);
  if (peak == plan.phases.end()) return "";
  std::vector<std::pair<NamedBytes, int>> rows;
  for (const NamedBytes& owner : peak->owners) {
    rows.emplace_back(owner, std::ranges::find(kOwners, known_owner(owner.name), &Owner::name)->colour);
  }
  std::int64_t sum = 0;
  for (const NamedBytes& item : plan.reserve) rows.emplace_back(item, kOther);
  for (const auto& [row, colour] : rows) sum += row.bytes;
  std::ranges::stable_sort(rows, std::greater(), [](const auto& row) { return row.first.bytes; });
  Table table(fmt::format("at the peak, in the phase {}", escaped(peak->name)), {"owner", "bytes", "share", ""});
  constexpr double kLeastShare = 0.001;
  NamedBytes others{"", 0};
  int small = 0;
  for (const auto& [row, colour] : rows) {
    const double share = sum > 0 ? static_cast<double>(row.bytes) / static_cast<double>(sum) : 0;
    if (share < kLeastShare) {
      others.bytes += row.bytes, ++small;
      continue;
    }
    table.row({escaped(row.name), to_text(Bytes{row.bytes}), fmt::format("{:.1f} %", 100 * share), share_bar(share, colour)});
  }
  if (small > 0) table.row({fmt::format("{} smaller ones", small), to_text(Bytes{others.bytes}), "", ""});
  return table.html();
}

struct DiskPart {
  std::int64_t bytes = 0, files = 0;
};

// The regular files of a folder, links not followed, in a bounded walk.
DiskPart bytes_below(const std::filesystem::path& folder) {
  constexpr std::int64_t kMostFiles = 20'000;
  DiskPart part;
  std::error_code error;
  std::filesystem::recursive_directory_iterator entry(folder, error), end;
  for (; !error && entry != end && part.files < kMostFiles; entry.increment(error)) {
    std::error_code ignored;
    ++part.files;
    if (entry->symlink_status(ignored).type() != std::filesystem::file_type::regular) continue;
    const auto size = static_cast<std::int64_t>(entry->file_size(ignored));
    if (!ignored) part.bytes += size;
  }
  return part;
}

std::string disk_table(const ReportedRun& reported) {
  const std::filesystem::path& run = reported.run.path;
  Table table("", {"in the folder of the run", "bytes"});
  for (const char* name : {"checkpoints", "weights", "weights_best", "weights_ema", "diverged", "abandoned", "tokens"}) {
    if (const DiskPart part = bytes_below(run / name); part.bytes > 0) table.row({name, to_text(Bytes{part.bytes})});
  }
  std::int64_t records = 0;
  for (const char* name :
       {"metrics.jsonl", "eval.jsonl", "events.jsonl", "samples.jsonl", "run.json", "plan.json", "settings.json"}) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(run / name, error))) continue;
    if (const auto size = std::filesystem::file_size(run / name, error); !error) records += static_cast<std::int64_t>(size);
  }
  if (records > 0) table.row({"records", to_text(Bytes{records})});
  for (const NamedBytes& each : reported.plan.run_folder) {
    if (each.name == "peak_bytes") table.row({"planned at most", to_text(Bytes{each.bytes})});
  }
  return table.html();
}

}  // namespace

std::string memory_html(const ReportedRun& reported) {
  std::string out = budget_table(reported);
  if (!reported.plan.found) return out + "<p class=\"dim\">plan.json cannot be read.</p>\n<h3>Disk</h3>\n" + disk_table(reported);
  if (reported.plan.timeline.empty()) {
    out += "<p class=\"dim\">The plan is of an earlier version, without a timeline.</p>\n";
  } else {
    out += html_of(timeline_chart(reported));
  }
  return out + "<div class=\"two\">\n<div><h3>Owners at the peak</h3>\n" + owners_table(reported) +
         "</div>\n<div><h3>Disk</h3>\n" + disk_table(reported) + "</div>\n</div>\n";
}

namespace {

// Seconds between the begins and the ends of the segments that have both; 0 if none has.
double wall_seconds(const ReportedRun& reported) {
  double sum = 0;
  for (const RunSegment& segment : reported.run.segments) {
    std::tm begin{}, end{};
    if (::strptime(segment.begun.c_str(), "%Y-%m-%dT%H:%M:%SZ", &begin) == nullptr) continue;
    if (::strptime(segment.ended.c_str(), "%Y-%m-%dT%H:%M:%SZ", &end) == nullptr) continue;
    sum += static_cast<double>(::timegm(&end) - ::timegm(&begin));
  }
  return sum;
}

}  // namespace

std::string time_html(const ReportedRun& reported) {
  const RunHistory& history = reported.history;
  const PlanFacts& plan = reported.plan;
  if (history.updates == 0) return "<p class=\"dim\">No update has been made.</p>\n";
  Table table("", {"", "predicted", "measured"});
  const auto seconds = [](std::optional<double> value) { return value ? time_text(*value) : std::string("-"); };
  table.row({"an update, median", seconds(plan.update_seconds), time_text(history.median_seconds)});
  table.row({"one of 20 takes longer than", "", time_text(history.slow_seconds)});
  if (history.update_seconds > 0) {
    const std::string unit = escaped(reported.units());
    table.row({fmt::format("trained {} a second", unit), plan.tokens_per_second ? short_count(*plan.tokens_per_second) : "-",
               short_count(history.trained / history.update_seconds)});
    if (history.tokens > 0)
      table.row({fmt::format("all {} a second", unit), "", short_count(history.tokens / history.update_seconds)});
  }
  table.row({"wait for data", "",
             history.waits && history.update_seconds > 0 ? fmt::format("{} ({:.1f} %)", time_text(history.wait_seconds),
                                                                       100 * history.wait_seconds / history.update_seconds)
                                                         : "not recorded"});
  if (history.evaluated_count > 0)
    table.row({"evaluation", seconds(plan.evaluation_seconds), time_text(history.evaluation_seconds)});
  if (plan.save_seconds) table.row({"saving", seconds(plan.save_seconds), "in the rest below"});
  const double wall = wall_seconds(reported);
  const double rest = wall - history.update_seconds - history.evaluation_seconds;
  std::vector<Part> parts{{"computing", time_text(history.update_seconds - history.wait_seconds),
                           std::max(0.0, history.update_seconds - history.wait_seconds), 0},
                          {"waiting for data", time_text(history.wait_seconds), history.wait_seconds, 1},
                          {"evaluation", time_text(history.evaluation_seconds), history.evaluation_seconds, 2}};
  if (rest > 0) parts.push_back({"loading, saving and the rest", time_text(rest), rest, 7});
  std::string description = "Seconds of the run:";
  for (const Part& part : parts) description += fmt::format(" {} {}.", part.name, part.text);
  LineChart chart;
  chart.id = "seconds", chart.title = "Seconds of an update", chart.height = 110, chart.from_zero = true;
  chart.y_kind = NumberKind::seconds, chart.may_be_logarithmic = true;
  chart.lines.push_back({"an update", 0, Line::Kind::only, history.seconds.points(), false});
  if (plan.update_seconds) chart.level.push_back({*plan.update_seconds, "predicted", 1});
  chart.description =
      fmt::format("Median {}, 95th percentile {}{}.", time_text(history.median_seconds), time_text(history.slow_seconds),
                  plan.update_seconds ? ", predicted " + time_text(*plan.update_seconds) : "");
  return table.html() + bar_html("times", "The time of the run", description, parts) + html_of(chart);
}

}  // namespace plimsoll
