#include "report/figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "report/html.h"

namespace plimsoll {
namespace {

constexpr double kAcross = 10000, kDown = 1000;  // of the inner picture
constexpr int kMostTicks = 6;

std::string percent(double share) { return fmt::format("{:.2f}%", 100 * share); }

long across(double share) { return std::lround(kAcross * share); }
long down(double share) { return std::lround(kDown * (1 - share)); }

std::string open_svg(const std::string& id, const std::string& title, const std::string& description, int height) {
  return fmt::format(
      "<svg class=\"plot\" role=\"img\" aria-labelledby=\"{0}-t {0}-d\" height=\"{3}\"><title id=\"{0}-t\">{1}</title>"
      "<desc id=\"{0}-d\">{2}</desc>\n",
      id, escaped(title), escaped(description), height);
}

const char* anchor_at(double share) { return share > 0.9 ? "end" : share < 0.1 ? "start" : "middle"; }

// Horizontal lines with their numbers.
std::string level_grid(const Scale& scale, NumberKind kind, int height) {
  std::string out;
  for (const AxisTick& tick : ticks_of(scale, height < 150 ? 3 : kMostTicks, kind)) {
    const std::string y = percent(1 - tick.share);
    out += fmt::format(
        "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{0}\" y2=\"{0}\"/><text class=\"tick\" x=\"-8\" y=\"{0}\" "
        "dy=\"4\" text-anchor=\"end\">{1}</text>\n",
        y, escaped(tick.label));
  }
  return out;
}

std::string x_ticks(const Scale& scale) {
  std::string out;
  for (const AxisTick& tick : ticks_of(scale, 5, NumberKind::count)) {
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0}\" x2=\"{0}\" y1=\"100%\" y2=\"100%\" style=\"transform:translateY(4px)\"/>"
        "<text class=\"tick\" x=\"{0}\" y=\"100%\" dy=\"17\" text-anchor=\"middle\">{1}</text>\n",
        percent(tick.share), escaped(tick.label));
  }
  return out;
}

std::string level_rules(const std::vector<Rule>& rules, const Scale& scale) {
  std::string out;
  for (const Rule& rule : rules) {
    const double share = scale.share(rule.at);
    const bool low = share > 0.93;  // the word stays inside
    out += fmt::format(
        "<line class=\"rule s{2}\" x1=\"0\" x2=\"100%\" y1=\"{0}\" y2=\"{0}\"/><text class=\"word f{2}\" x=\"100%\" "
        "y=\"{0}\" dx=\"-4\" dy=\"{3}\" text-anchor=\"end\">{1}</text>\n",
        percent(1 - share), escaped(rule.label), rule.colour, low ? 14 : -5);
  }
  return out;
}

std::string upright_rules(const std::vector<Rule>& rules, const Scale& scale) {
  std::string out;
  double last = -1;
  for (const Rule& rule : rules) {
    const double share = scale.share(rule.at);
    out += fmt::format("<line class=\"rule s{1}\" x1=\"{0}\" x2=\"{0}\" y1=\"0\" y2=\"100%\"/>", percent(share), rule.colour);
    const bool room = last < 0 || share - last > 0.16;
    if (room && !rule.label.empty()) {
      out += fmt::format("<text class=\"word f{1}\" x=\"{0}\" y=\"-5\" text-anchor=\"{3}\">{2}</text>", percent(share),
                         rule.colour, escaped(rule.label), anchor_at(share));
      last = share;
    }
    out += "\n";
  }
  return out;
}

const char* class_of(Line::Kind kind) {
  switch (kind) {
    case Line::Kind::thin: return "thin";
    case Line::Kind::only: return "only";
    case Line::Kind::dashed: return "line dashed";
    case Line::Kind::dotted: return "line dotted";
    case Line::Kind::line:
    case Line::Kind::with_dots: return "line";
  }
  return "line";
}

std::string path_of(const Line& line, const Scale& x, const Scale& y) {
  std::string path;
  for (const DataPoint& point : line.points) {
    fmt::format_to(std::back_inserter(path), "{}{} {}", path.empty() ? "M" : "L", across(x.share(point.x)),
                   down(y.share(point.y)));
  }
  return path;
}

std::string dots_of(const Line& line, const Scale& x, const Scale& y) {
  constexpr std::size_t kMostDots = 60;
  if (line.kind != Line::Kind::with_dots && line.points.size() > 1) return "";
  if (line.points.size() > kMostDots) return "";
  std::string out;
  for (const DataPoint& point : line.points) {
    out += fmt::format("<circle class=\"f{}\" cx=\"{}\" cy=\"{}\" r=\"2.5\"/>", line.colour, percent(x.share(point.x)),
                       percent(1 - y.share(point.y)));
  }
  return out + "\n";
}

std::string marks_of(const std::vector<Mark>& marks, const Scale& x, const Scale& y) {
  std::string out;
  for (const Mark& mark : marks) {
    const std::string at = percent(x.share(mark.x)), level = percent(1 - y.share(mark.y));
    const std::string title = fmt::format("<title>{}</title>", escaped(mark.text));
    if (mark.kind == Mark::Kind::ring) {
      out += fmt::format("<circle class=\"ring s{}\" cx=\"{}\" cy=\"{}\" r=\"5.5\">{}</circle>\n", mark.colour, at, level, title);
    } else {
      // A triangle above the point, drawn from its place.
      out += fmt::format(
          "<svg x=\"{}\" y=\"{}\" width=\"1\" height=\"1\" overflow=\"visible\"><path class=\"f{}\" "
          "d=\"M0-4L-4-11L4-11Z\">{}</path></svg>\n",
          at, level, mark.colour, title);
    }
  }
  return out;
}

std::string line_legend(const LineChart& chart) {
  std::string items;
  for (const Line& line : chart.lines) {
    if (!line.in_legend || line.points.empty()) continue;
    const char* dash = line.kind == Line::Kind::dashed ? " dashed" : line.kind == Line::Kind::dotted ? " dotted" : "";
    items += fmt::format(
        "<li><svg class=\"key\" width=\"26\" height=\"10\" aria-hidden=\"true\"><line class=\"{}{} s{}\" x1=\"1\" "
        "x2=\"25\" y1=\"5\" y2=\"5\"/></svg>{}</li>",
        line.kind == Line::Kind::thin ? "thin" : "line", dash, line.colour, escaped(line.name));
  }
  bool ring = false, spike = false;
  for (const Mark& mark : chart.marks) {
    bool& told = mark.kind == Mark::Kind::ring ? ring : spike;
    if (std::exchange(told, true)) continue;
    const std::string shape = mark.kind == Mark::Kind::ring
                                  ? fmt::format("<circle class=\"ring s{}\" cx=\"6\" cy=\"6\" r=\"4.5\"/>", mark.colour)
                                  : fmt::format("<path class=\"f{}\" d=\"M6 10L2 3L10 3Z\"/>", mark.colour);
    items += fmt::format("<li><svg class=\"key\" width=\"12\" height=\"12\" aria-hidden=\"true\">{}</svg>{}</li>", shape,
                         mark.kind == Mark::Kind::ring ? "best" : "spike");
  }
  return items.empty() ? "" : "<ul class=\"legend\">" + items + "</ul>\n";
}

std::string figure(const std::string& title, const std::string& y_name, const std::string& body,
                   const std::vector<std::string>& notes) {
  std::string out = fmt::format("<figure>\n<figcaption><b>{}</b>{}</figcaption>\n{}", escaped(title),
                                y_name.empty() ? "" : fmt::format("<span class=\"unit\">{}</span>", escaped(y_name)), body);
  for (const std::string& note : notes) out += fmt::format("<p class=\"note\">{}</p>\n", escaped(note));
  return out + "</figure>\n";
}

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void see(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value), high = std::max(high, value);
  }
};

}  // namespace

std::string html_of(const LineChart& chart) {
  Range across_range, level_range;
  for (const Line& line : chart.lines) {
    for (const DataPoint& point : line.points) across_range.see(point.x), level_range.see(point.y);
  }
  if (level_range.low > level_range.high) return "";
  for (const Mark& mark : chart.marks) level_range.see(mark.y);
  for (const Rule& rule : chart.level) level_range.see(rule.at);
  Scale x{chart.from_x.value_or(across_range.low), chart.to_x.value_or(across_range.high), false};
  if (x.high <= x.low) x = {x.low - 1, x.high + 1, false};
  const Scale y = scale_of(level_range.low, level_range.high, chart.from_zero, chart.may_be_logarithmic);
  std::string body = line_legend(chart);
  body +=
      open_svg(chart.id, chart.title, chart.description, chart.height) + level_grid(y, chart.y_kind, chart.height) + x_ticks(x);
  body += upright_rules(chart.upright, x);
  body += fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\" preserveAspectRatio=\"none\" width=\"100%\" height=\"100%\">\n",
                      kAcross, kDown);
  std::string dots;
  for (const Line& line : chart.lines) {
    if (line.points.size() > 1) {
      body += fmt::format("<path class=\"{} s{}\" d=\"{}\"/>\n", class_of(line.kind), line.colour, path_of(line, x, y));
    }
    dots += dots_of(line, x, y);
  }
  body += "</svg>\n" + level_rules(chart.level, y) + dots + marks_of(chart.marks, x, y) + "</svg>\n";
  const std::string name = chart.y_name + (y.logarithmic ? (chart.y_name.empty() ? "logarithmic" : ", logarithmic") : "");
  return figure(chart.title, name, body + fmt::format("<p class=\"axis\">{}</p>\n", escaped(chart.x_name)), chart.notes);
}

namespace {

// The edge of a layer over the steps of its phase, down to the ground.
std::string step_area(const AreaPhase& phase, const std::vector<double>& tops, double left, double width, const Scale& y) {
  const double begin = phase.steps.front(), length = std::max(phase.end - begin, 1e-9);
  const auto at = [&](double step) { return across(left + width * (step - begin) / length); };
  std::string path = fmt::format("M{} {}", at(begin), static_cast<long>(kDown));
  for (std::size_t point = 0; point < tops.size(); ++point) {
    const double end = point + 1 < tops.size() ? phase.steps[point + 1] : phase.end;
    fmt::format_to(std::back_inserter(path), "V{}H{}", down(y.share(tops[point])), at(end));
  }
  return path + fmt::format("V{}Z", static_cast<long>(kDown));
}

// Widths of the phases: the longer one is wider, and none is too narrow for its name.
std::vector<double> widths_of(const std::vector<AreaPhase>& phases) {
  constexpr double kLeast = 0.09, kGap = 0.012;
  std::vector<double> widths;
  double sum = 0;
  for (const AreaPhase& phase : phases) sum += widths.emplace_back(std::sqrt(std::max(phase.end - phase.steps.front(), 1.0)));
  const double room = 1 - kGap * static_cast<double>(phases.size() - 1);
  const double free = room - kLeast * static_cast<double>(phases.size());
  for (double& width : widths) width = free > 0 ? kLeast + free * width / sum : room / static_cast<double>(phases.size());
  return widths;
}

std::string area_legend(const AreaChart& chart) {
  std::string items;
  for (auto layer = chart.layers.rbegin(); layer != chart.layers.rend(); ++layer) {
    items += fmt::format(
        "<li><svg class=\"key\" width=\"12\" height=\"12\" aria-hidden=\"true\"><rect class=\"f{}\" width=\"12\" "
        "height=\"12\"/></svg>{}</li>",
        layer->colour, escaped(layer->name));
  }
  return "<ul class=\"legend\">" + items + "</ul>\n";
}

}  // namespace

std::string html_of(const AreaChart& chart) {
  constexpr double kGap = 0.012;
  double most = 0;
  for (const AreaPhase& phase : chart.phases) {
    for (std::size_t point = 0; point < phase.steps.size(); ++point) {
      double sum = 0;
      for (const auto& levels : phase.levels) sum += levels[point];
      most = std::max(most, sum);
    }
  }
  if (most <= 0) return "";
  for (const Rule& rule : chart.level) most = std::max(most, rule.at);
  const Scale y{0, 1.06 * most, false};
  const std::vector<double> widths = widths_of(chart.phases);
  std::string body = area_legend(chart) + open_svg(chart.id, chart.title, chart.description, chart.height) +
                     level_grid(y, NumberKind::bytes, chart.height);
  body += fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\" preserveAspectRatio=\"none\" width=\"100%\" height=\"100%\">\n",
                      kAcross, kDown);
  double left = 0;
  std::string names;
  for (std::size_t i = 0; i < chart.phases.size(); ++i) {
    const AreaPhase& phase = chart.phases[i];
    std::vector<std::vector<double>> tops(phase.levels.size(), std::vector<double>(phase.steps.size(), 0));
    for (std::size_t layer = 0; layer < tops.size(); ++layer) {
      for (std::size_t point = 0; point < phase.steps.size(); ++point) {
        tops[layer][point] = phase.levels[layer][point] + (layer > 0 ? tops[layer - 1][point] : 0);
      }
    }
    for (std::size_t layer = tops.size(); layer-- > 0;) {  // the highest first, behind those below it
      if (std::ranges::max(phase.levels[layer]) <= 0) continue;
      body += fmt::format("<path class=\"area f{}\" d=\"{}\"/>\n", chart.layers[layer].colour,
                          step_area(phase, tops[layer], left, widths[i], y));
    }
    names += fmt::format("<text class=\"tick\" x=\"{}\" y=\"100%\" dy=\"17\" text-anchor=\"middle\">{}</text>\n",
                         percent(left + widths[i] / 2), escaped(phase.name));
    left += widths[i] + kGap;
  }
  body += "</svg>\n" + names + level_rules(chart.level, y) + "</svg>\n";
  return figure(chart.title, chart.y_name, body + "<p class=\"axis\">phases, with their steps from left to right</p>\n",
                chart.notes);
}

std::string bar_html(const std::string& id, const std::string& title, const std::string& description,
                     const std::vector<Part>& parts) {
  double sum = 0;
  for (const Part& part : parts) sum += part.size;
  if (sum <= 0) return "";
  std::string bar, legend;
  double left = 0;
  for (const Part& part : parts) {
    if (part.size <= 0) continue;
    bar += fmt::format("<rect class=\"area f{}\" x=\"{}\" width=\"{}\" height=\"100%\"><title>{}</title></rect>", part.colour,
                       percent(left / sum), percent(part.size / sum), escaped(part.name + ": " + part.text));
    left += part.size;
    legend += fmt::format(
        "<li><svg class=\"key\" width=\"12\" height=\"12\" aria-hidden=\"true\"><rect class=\"f{}\" width=\"12\" "
        "height=\"12\"/></svg>{} <b>{}</b> {:.1f} %</li>",
        part.colour, escaped(part.name), escaped(part.text), 100 * part.size / sum);
  }
  return fmt::format(
      "<figure>\n<figcaption><b>{1}</b></figcaption>\n<svg class=\"bar\" role=\"img\" aria-labelledby=\"{0}-t "
      "{0}-d\" width=\"100%\" height=\"22\"><title id=\"{0}-t\">{1}</title><desc id=\"{0}-d\">{2}</desc>{3}</svg>\n"
      "<ul class=\"legend\">{4}</ul>\n</figure>\n",
      id, escaped(title), escaped(description), bar, legend);
}

std::string share_bar(double share, int colour) {
  return fmt::format(
      "<svg class=\"share\" height=\"10\" aria-hidden=\"true\"><rect class=\"f{}\" width=\"{}\" "
      "height=\"10\" rx=\"1\"/></svg>",
      colour, percent(std::clamp(share, 0.0, 1.0)));
}

}  // namespace plimsoll
