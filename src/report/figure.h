// Figures of the page: line charts and stacked areas as inline SVG. The plot takes the width of the page while its texts keep
// their size: shapes lie in an inner SVG that stretches, texts and dots at shares of the width. No script.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/axis.h"
#include "report/thinned.h"

namespace plimsoll {

struct Line {
  std::string name;
  int colour = 0;  // 0 to 7, of the palette
  enum class Kind { thin, only, line, dashed, dotted, with_dots } kind = Kind::line;
  std::vector<DataPoint> points;
  bool in_legend = true;
};

// A place on an axis with a word at it.
struct Rule {
  double at = 0;
  std::string label;
  int colour = 7;
};

// A point with a ring or a triangle.
struct Mark {
  double x = 0, y = 0;
  std::string text;
  int colour = 1;
  enum class Kind { ring, spike } kind = Kind::ring;
};

struct LineChart {
  std::string id, title, description;  // the description is the alternative to the picture
  std::string x_name = "update", y_name;
  NumberKind y_kind = NumberKind::plain;
  int height = 240;  // pixels
  std::vector<Line> lines;
  std::vector<Rule> upright, level;
  std::vector<Mark> marks;
  std::vector<std::string> notes;      // below it
  std::optional<double> from_x, to_x;  // else those of the points
  bool from_zero = false;              // the y axis
  bool may_be_logarithmic = false;
};

std::string html_of(const LineChart& chart);

// Owners on top of each other over the steps of several phases, which stand side by side.
struct Layer {
  std::string name;
  int colour = 0;
  double peak = 0;
};

struct AreaPhase {
  std::string name;
  std::vector<double> steps;                // of the points
  std::vector<std::vector<double>> levels;  // by layer, one value per point
  double end = 0;                           // the step after the last one
};

struct AreaChart {
  std::string id, title, description, y_name;
  int height = 260;
  std::vector<Layer> layers;  // the lowest first
  std::vector<AreaPhase> phases;
  std::vector<Rule> level;
  std::vector<std::string> notes;
};

std::string html_of(const AreaChart& chart);

// Shares of one total, side by side, with a legend.
struct Part {
  std::string name, text;
  double size = 0;
  int colour = 0;
};
std::string bar_html(const std::string& id, const std::string& title, const std::string& description,
                     const std::vector<Part>& parts);

// A bar of a table: `share` of its cell.
std::string share_bar(double share, int colour);

}  // namespace plimsoll
