#include "report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/text.h"
#include "records/compare_runs.h"
#include "report/curves.h"
#include "report/facts.h"
#include "report/html.h"
#include "report/memory.h"
#include "report/reported_run.h"
#include "report/samples.h"
#include "report/style.h"
#include "report/summary.h"

namespace plimsoll {
namespace {

using nlohmann::json;

// The policy lets the page load nothing; the empty icon keeps browsers from asking for one.
std::string page(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n{}</body>\n</html>\n",
      escaped(title), kStyle, body);
}

std::string section(const char* id, const char* title, const std::string& body) {
  return body.empty() ? "" : fmt::format("<section>\n<h2 id=\"{}\">{}</h2>\n{}</section>\n", id, title, body);
}

std::string head_of(const ReportedRun& reported) {
  const Run& run = reported.run;
  std::string out = fmt::format("<header>\n<h1>{}{}</h1>\n", escaped(run.name), state_html(run));
  std::string line = reported.plan.model;
  const auto add = [&](const std::string& text) {
    if (!text.empty()) line += (line.empty() ? "" : " · ") + text;
  };
  if (reported.plan.parameters) add(short_count(static_cast<double>(*reported.plan.parameters)) + " parameters");
  if (!run.segments.empty()) add("begun " + run.segments.front().begun);
  if (run.segments.size() > 1) add(counted(static_cast<std::int64_t>(run.segments.size()) - 1, "resume"));
  if (!line.empty()) out += fmt::format("<p class=\"dim\">{}</p>\n", escaped(line));
  if (!reported.note.empty()) out += fmt::format("<p>{}</p>\n", escaped(shortened(reported.note, 2000)));
  return out + "</header>\n";
}

std::string footer() {
  return "<footer>Made by <code>plimsoll report</code> from the files of the run. The page loads nothing.</footer>\n";
}

std::string page_of(const ReportedRun& reported) {
  std::string body = head_of(reported) + summary_html(reported);
  body += "<nav aria-label=\"Sections\"><a href=\"#curves\">Curves</a>";
  const std::string samples = samples_html(reported);
  if (!samples.empty()) body += "<a href=\"#samples\">Samples</a>";
  body +=
      "<a href=\"#memory\">Memory</a><a href=\"#time\">Time</a>"
      "<a href=\"#stability\">Stability</a><a href=\"#data\">Data</a><a href=\"#settings\">Settings</a>"
      "<a href=\"#checkpoints\">Checkpoints</a><a href=\"#machine\">Machine</a><a href=\"#command\">Command</a></nav>\n";
  body += "<main>\n";
  body += section("curves", "Learning curves", curves_html(reported)) + section("samples", "Samples", samples) +
          section("memory", "Memory", memory_html(reported)) + section("time", "Time", time_html(reported)) +
          section("stability", "Stability",
                  reported.history.updates > 0 ? stability_html(reported) : "<p class=\"dim\">No update has been made.</p>\n") +
          section("data", "Data", data_html(reported)) + section("settings", "Settings", settings_html(reported)) +
          section("checkpoints", "Checkpoints", checkpoints_html(reported)) +
          section("machine", "Machine", machine_html(reported)) +
          section("command", "The command that repeats the run", command_html(reported));
  return page(reported.run.name, body + "</main>\n" + footer());
}

std::string difference_text(const RunDifference& difference, const std::optional<std::string>& value) {
  if (!value) return "<span class=\"dim\">none</span>";
  const json parsed = json::parse(*value, nullptr, /*allow_exceptions=*/false);
  if (difference.key.ends_with("_bytes") && parsed.is_number_integer()) return to_text(Bytes{parsed.get<std::int64_t>()});
  const std::string text = parsed.is_string() ? parsed.get<std::string>() : *value;
  const bool hash = difference.key.ends_with("hash") || difference.key == "base.weights";
  return escaped(shortened(text, hash ? 12 : 80));
}

std::string figure_text(const std::string& key, std::optional<double> value) {
  if (!value) return "-";
  if (key.ends_with("_bytes")) return to_text(Bytes{static_cast<std::int64_t>(*value)});
  if (key == "seconds") return time_text(*value);
  if (key.ends_with("_per_second")) return short_count(*value);
  if (key.ends_with("_share") || key == "accuracy") return fmt::format("{:.2f} %", 100 * *value);
  if (key == "updates" || key == "samples" || key == "best_update") return grouped(static_cast<std::int64_t>(*value));
  return number_text(*value);
}

std::string page_of(const std::vector<ReportedRun>& reported) {
  std::vector<Run> runs;
  for (const ReportedRun& each : reported) runs.push_back(each.run);
  const RunComparison comparison = compare_runs(runs);
  const auto head = [&](const char* first) {
    std::vector<std::string> cells{first};
    for (const Run& run : runs) cells.push_back(escaped(shortened(run.name, 40)));
    return cells;
  };
  std::vector<std::string> states{"state"};
  for (const Run& run : runs) states.push_back(state_html(run));
  Table figures("", head("at the end"));
  figures.row(std::move(states));
  for (const RunFigure& figure : comparison.figures) {
    std::string name = figure.key;
    std::ranges::replace(name, '_', ' ');
    std::vector<std::string> cells{escaped(name)};
    for (const auto& value : figure.values) cells.push_back(figure_text(figure.key, value));
    figures.row(std::move(cells));
  }
  Table differences("", head("setting or fact"), /*numbers=*/false);
  for (const RunDifference& each : comparison.differences) {
    std::vector<std::string> cells{"<code>" + escaped(each.key) + "</code>"};
    for (const auto& value : each.values) cells.push_back(difference_text(each, value));
    differences.row(std::move(cells));
  }
  std::string body = fmt::format("<header>\n<h1>{} runs</h1>\n", runs.size());
  for (const ReportedRun& each : reported) {
    body += fmt::format("<p><b>{}</b>{} <span class=\"dim\">{}</span></p>\n", escaped(each.run.name), state_html(each.run),
                        escaped(verdict_of(each)));
  }
  body += "</header>\n<main>\n";
  std::string curves = overlaid_html(reported, comparison.validation.same ? "" : comparison.validation.why);
  if (!comparison.training.same) {
    curves += fmt::format("<p class=\"note\">The training losses are not over the same tokens: {}.</p>\n",
                          escaped(comparison.training.why));
  }
  body += section("curves", "Learning curves", curves) + section("figures", "Figures", figures.html()) +
          section("differences", "Differences",
                  differences.empty() ? "<p>The runs differ in no setting, data, machine or plan.</p>\n" : differences.html());
  return page(fmt::format("{} runs", runs.size()), body + "</main>\n" + footer());
}

}  // namespace

std::string report_page(std::span<const std::filesystem::path> runs, const SpellCommand& spell) {
  std::vector<ReportedRun> reported;
  for (const std::filesystem::path& run : runs) reported.push_back(read_reported_run(run, spell));
  return reported.size() == 1 ? page_of(reported.front()) : page_of(reported);
}

}  // namespace plimsoll
