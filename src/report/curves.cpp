#include "report/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "base/text.h"
#include "records/noise_scale.h"
#include "report/figure.h"
#include "report/html.h"

namespace plimsoll {
namespace {

constexpr std::size_t kMostRows = 40;

std::vector<DataPoint> validation_points(const ReportedRun& reported) {
  Thinned points;
  for (const EvaluatedThen& each : reported.history.evaluations) {
    points.add(static_cast<double>(each.evaluation.update), each.evaluation.loss);
  }
  return points.points();
}

// Resumes and the ends of epochs, as far as they are few.
std::vector<Rule> upright_rules(const ReportedRun& reported) {
  constexpr std::size_t kMost = 12;
  std::vector<Rule> rules;
  const auto& segments = reported.run.segments;
  for (std::size_t i = 1; i < segments.size(); ++i) {
    if (segments[i].from_update > 0 && rules.size() < 4 * kMost) {
      rules.push_back({static_cast<double>(segments[i].from_update), "resumed", 8});
    }
  }
  const auto epoch = reported.run.data.samples;
  if (!epoch || *epoch <= 0 || reported.run.effective_batch <= 0) return rules;
  const double updates = static_cast<double>(*epoch) / static_cast<double>(reported.run.effective_batch);
  const double epochs = static_cast<double>(reported.run.updates) / updates;
  if (epochs > static_cast<double>(kMost)) return rules;
  for (int i = 1; i < epochs; ++i) rules.push_back({i * updates, fmt::format("epoch {}", i + 1), 7});
  std::ranges::sort(rules, {}, &Rule::at);
  return rules;
}

std::string x_name(const ReportedRun& reported) {
  const auto epoch = reported.run.data.samples;
  if (!epoch || *epoch <= 0 || reported.run.effective_batch <= 0) return "update";
  const double updates = static_cast<double>(*epoch) / static_cast<double>(reported.run.effective_batch);
  return fmt::format("update (an epoch is {} updates)", short_count(std::round(updates)));
}

void add_spikes(LineChart& chart, const RunHistory& history) {
  for (const DataPoint& spike : history.spikes.points()) {
    chart.marks.push_back(
        {spike.x, spike.y, fmt::format("spike at update {:.0f}: loss {}", spike.x, number_text(spike.y)), 1, Mark::Kind::spike});
  }
}

LineChart loss_chart(const ReportedRun& reported) {
  const RunHistory& history = reported.history;
  LineChart chart;
  chart.id = "loss", chart.title = "Loss", chart.y_name = "nats", chart.x_name = x_name(reported), chart.height = 320;
  chart.may_be_logarithmic = true;
  // Drawn first, so that the run's own lines lie on top.
  for (std::size_t i = 0; i < history.abandoned.size(); ++i) {
    const AbandonedPart& part = history.abandoned[i];
    chart.lines.push_back({"abandoned", 7, Line::Kind::dashed, part.smooth.points(), i == 0});
    chart.lines.push_back({"abandoned, validation", 7, Line::Kind::dotted, part.validation.points(), false});
  }
  chart.lines.push_back({"training, each update", 0, Line::Kind::thin, history.loss.points()});
  chart.lines.push_back({"training, smoothed", 0, Line::Kind::line, history.smooth.points()});
  chart.lines.push_back({"validation", 1, Line::Kind::with_dots, validation_points(reported)});
  chart.upright = upright_rules(reported);
  if (const auto& best = reported.run.best) {
    chart.marks.push_back({static_cast<double>(best->update), best->loss,
                           fmt::format("best validation loss {} at update {}", number_text(best->loss), best->update), 2});
  }
  add_spikes(chart, history);
  chart.notes.push_back(
      fmt::format("Smoothed with a half-life of {:.0f} updates; the thin line keeps the least and the greatest "
                  "loss of each stretch.",
                  history.half_life));
  if (history.abandoned_count > 0) {
    const AbandonedPart& last = history.abandoned.back();
    const std::string which = history.abandoned_count == 1 ? "The dim lines are updates" : "The last time, these were updates";
    chart.notes.push_back(fmt::format(
        "The run went back to an earlier checkpoint {}. {} {} to {}, which lie in abandoned/; sums and tables are without them.",
        history.abandoned_count == 1 ? "once" : fmt::format("{} times", history.abandoned_count), which, grouped(last.after + 1),
        grouped(last.until)));
  }
  const auto differs = [&](const char* key) { return reported.number(key).value_or(0) != 0; };
  if (differs("train.label_smoothing") || differs("train.z_loss")) {
    chart.notes.push_back("The training loss includes label smoothing and z-loss; the validation loss is cross-entropy alone.");
  }
  if (history.loss.left_out() > 0) {
    chart.notes.push_back(
        fmt::format("The loss of {} updates was not finite; they are left out.", grouped(history.loss.left_out())));
  }
  const std::vector<DataPoint> smooth = history.smooth.points();
  chart.description =
      smooth.empty()
          ? "Validation loss over the updates."
          : fmt::format("Training loss over {} updates: {} at the start, {} smoothed at the end.{} {}.", grouped(history.updates),
                        number_text(history.loss.points().front().y), number_text(smooth.back().y),
                        reported.run.best ? fmt::format(" Best validation loss {} at update {}.",
                                                        number_text(reported.run.best->loss), grouped(reported.run.best->update))
                                          : "",
                        counted(history.spike_count, "spike"));
  return chart;
}

// The rows of the table: all, or a part that has the first, the best and the last.
std::vector<std::size_t> rows_of(const ReportedRun& reported) {
  const auto& all = reported.history.evaluations;
  std::vector<std::size_t> rows;
  if (all.size() <= kMostRows) {
    for (std::size_t i = 0; i < all.size(); ++i) rows.push_back(i);
    return rows;
  }
  for (std::size_t i = 0; i < kMostRows; ++i) rows.push_back(i * (all.size() - 1) / (kMostRows - 1));
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (reported.run.best && all[i].evaluation.update == reported.run.best->update) rows.push_back(i);
  }
  std::ranges::sort(rows);
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

std::string signed_text(double number) {
  return std::abs(number) < 100 ? fmt::format("{:+.4f}", number) : (number > 0 ? "+" : "") + number_text(number);
}

std::string evaluations_html(const ReportedRun& reported) {
  const auto& all = reported.history.evaluations;
  if (all.empty()) return "";
  const bool classes = std::ranges::any_of(all, [](const EvaluatedThen& each) { return each.evaluation.accuracy.has_value(); });
  std::vector<std::string> head{"update", "validation loss", "change"};
  if (classes) head.insert(head.end(), {"accuracy", "top 5"});
  head.insert(head.end(), {"training, smoothed", "gap", "units", "time"});
  const std::vector<std::size_t> rows = rows_of(reported);
  Table table(rows.size() < all.size() ? fmt::format("{} of {} evaluations, among them the best", rows.size(), all.size())
                                       : std::string(),
              std::move(head));
  for (const std::size_t row : rows) {
    const Evaluation& each = all[row].evaluation;
    const bool best = reported.run.best && reported.run.best->update == each.update;
    std::vector<std::string> cells{grouped(each.update) + (best ? " <b>best</b>" : ""), number_text(each.loss)};
    cells.push_back(row > 0 && all[row - 1].evaluation.units == each.units ? signed_text(each.loss - all[row - 1].evaluation.loss)
                                                                           : "");
    if (classes) {
      cells.push_back(each.accuracy ? fmt::format("{:.2f} %", 100 * each.accuracy->top1) : "-");
      cells.push_back(each.accuracy ? fmt::format("{:.2f} %", 100 * each.accuracy->top5) : "-");
    }
    const auto& training = all[row].training;
    cells.push_back(number_text(training));
    cells.push_back(training ? signed_text(each.loss - *training) : "");
    cells.push_back(grouped(each.units));
    cells.push_back(time_text(each.seconds));
    table.row(std::move(cells));
  }
  const std::string html = table.html();
  if (all.size() <= 12) return "<h3>Evaluations</h3>\n" + html;
  return fmt::format("<details><summary>{} evaluations as a table</summary>\n{}</details>\n",
                     grouped(static_cast<std::int64_t>(all.size())), html);
}

LineChart strip(const ReportedRun& reported, const char* id, const char* title, const Thinned& values, int colour) {
  LineChart chart;
  chart.id = id, chart.title = title, chart.height = 96;
  chart.lines.push_back({title, colour, Line::Kind::line, values.points(), false});
  for (const Rule& rule : upright_rules(reported)) {
    if (rule.label == "resumed") chart.upright.push_back({rule.at, "", rule.colour});
  }
  if (!chart.lines[0].points.empty()) {
    const auto [least, most] = std::ranges::minmax(chart.lines[0].points, {}, &DataPoint::y);
    chart.description = fmt::format("{}: from {} to {}, {} at the end.", title, number_text(least.y), number_text(most.y),
                                    number_text(chart.lines[0].points.back().y));
  }
  return chart;
}

}  // namespace

std::string curves_html(const ReportedRun& reported) {
  const RunHistory& history = reported.history;
  if (history.updates == 0 && history.evaluations.empty()) return "<p class=\"dim\">No update has been made.</p>\n";
  std::string out = html_of(loss_chart(reported));
  LineChart rate = strip(reported, "rate", "Learning rate", history.rate, 2);
  rate.from_zero = true;
  return out + html_of(rate) + evaluations_html(reported);
}

namespace {

// Empty for a run without measurements.
std::string noise_html(const ReportedRun& reported) {
  const RunNoise noise = reported.history.noise.noise();
  if (noise.windows.empty()) return "";
  std::string text;
  constexpr std::array<std::string_view, 3> kThirds{"first", "second", "last"};
  for (std::size_t i = 0; i < kThirds.size(); ++i) {
    text += fmt::format("{}{} in the {} third", i == 0 ? "" : "; ", noise_text(noise_scale(noise.thirds[i])), kThirds[i]);
  }
  return fmt::format("<p>Noise scale of the gradient, with an interval of 90 %: {}. It is {}.</p>\n", escaped(text),
                     kNoiseAdvice);
}

}  // namespace

std::string stability_html(const ReportedRun& reported) {
  const RunHistory& history = reported.history;
  if (history.updates == 0) return "";
  LineChart norm = strip(reported, "norm", "Gradient norm", history.norm, 0);
  norm.lines[0].kind = Line::Kind::only;
  norm.may_be_logarithmic = true;
  if (const double clip = reported.number("train.gradient_clip").value_or(0); clip > 0) {
    norm.level.push_back({clip, fmt::format("clipped at {:g}", clip), 1});
    norm.notes.push_back(fmt::format("{} of {} updates were scaled down ({:.1f} %).", grouped(history.clipped),
                                     grouped(history.updates),
                                     100 * static_cast<double>(history.clipped) / static_cast<double>(history.updates)));
    norm.description += " " + norm.notes.back();
  }
  LineChart ratio = strip(reported, "ratio", "Size of an update / size of the parameters", history.ratio, 3);
  ratio.lines[0].kind = Line::Kind::only;
  ratio.may_be_logarithmic = true;
  LineChart scale = strip(reported, "scale", "Loss scale", history.scale, 4);
  scale.may_be_logarithmic = true;
  return html_of(norm) + noise_html(reported) + html_of(ratio) + html_of(scale);
}

std::string overlaid_html(std::span<const ReportedRun> runs, const std::string& why) {
  constexpr std::size_t kThin = 4;  // with more runs, single updates are a thicket
  const auto kind = [](std::size_t i) { return i < 7 ? Line::Kind::line : i < 14 ? Line::Kind::dashed : Line::Kind::dotted; };
  LineChart training;
  training.id = "loss", training.title = "Training loss, smoothed", training.y_name = "nats", training.height = 320;
  training.may_be_logarithmic = true;
  LineChart validation;
  validation.id = "validation", validation.title = "Validation loss", validation.y_name = "nats", validation.height = 280;
  validation.may_be_logarithmic = true;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::string name = shortened(runs[i].run.name, 40);
    const int colour = static_cast<int>(i % 7);
    if (runs.size() <= kThin) {
      training.lines.push_back({name, colour, Line::Kind::thin, runs[i].history.loss.points(), false});
    }
    training.lines.push_back({name, colour, kind(i), runs[i].history.smooth.points()});
    validation.lines.push_back({name, colour, i < 7 ? Line::Kind::with_dots : kind(i), validation_points(runs[i])});
    if (runs[i].history.smooth.empty()) continue;
    training.description += fmt::format("{} ends at {}. ", name, number_text(runs[i].history.smooth.points().back().y));
    if (runs[i].run.best) validation.description += fmt::format("{} is best at {}. ", name, number_text(runs[i].run.best->loss));
  }
  if (runs.size() <= kThin) training.notes.push_back("Thin lines: each update, with the extremes of each stretch.");
  std::string out = html_of(training);
  if (why.empty()) return out + html_of(validation);
  return out + fmt::format("<p class=\"note\">The validation losses are not drawn over each other: {}.</p>\n", escaped(why));
}

}  // namespace plimsoll
