#include "cli/plan/frontier_plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace plimsoll {
namespace {

// Rows of the plot: 16 less the title, the axis and its labels.
constexpr int kColumns = 72, kRows = 13;
constexpr int kTimeTicks = 4, kMemoryTicks = 4;
constexpr char kPoint = 'o', kLine = '.';

struct Cell {
  int column, row;
};

// The rows of the plot, highest first, without labels.
class Canvas {
 public:
  Canvas(const Curve& curve, const Axis& memory, const Axis& time, int columns)
      : columns_(columns), rows_(kRows, std::string(static_cast<std::size_t>(columns), ' ')) {
    std::vector<Cell> cells;
    for (const CurvePoint& point : curve.points) {
      cells.push_back({column_of(memory.share(static_cast<double>(point.memory.n))), row_of(time.share(point.seconds))});
    }
    for (std::size_t i = 1; i < cells.size(); ++i) connect(cells[i - 1], cells[i]);
    for (const Cell& cell : cells) at(cell) = kPoint;
    for (const CurveMark& mark : curve.marks) at(cells[mark.point]) = mark.letter;
  }

  int column_of(double share) const { return std::clamp(static_cast<int>(std::lround(share * (columns_ - 1))), 0, columns_ - 1); }
  static int row_of(double share) { return std::clamp(static_cast<int>(std::lround((1 - share) * (kRows - 1))), 0, kRows - 1); }
  const std::vector<std::string>& rows() const { return rows_; }

 private:
  char& at(Cell cell) { return rows_[static_cast<std::size_t>(cell.row)][static_cast<std::size_t>(cell.column)]; }

  void connect(Cell a, Cell b) {
    const int steps = std::max(std::abs(b.column - a.column), std::abs(b.row - a.row));
    for (int i = 1; i < steps; ++i) {
      const double part = static_cast<double>(i) / steps;
      at({a.column + static_cast<int>(std::lround(part * (b.column - a.column))),
          a.row + static_cast<int>(std::lround(part * (b.row - a.row)))}) = kLine;
    }
  }

  int columns_;
  std::vector<std::string> rows_;
};

std::string painted(const std::string& row, bool colour) {
  const std::string text = row.substr(0, row.find_last_not_of(' ') + 1);
  if (!colour) return text;
  std::string out;
  for (const char c : text) out += c == ' ' || c == kPoint || c == kLine ? std::string(1, c) : fmt::format("\033[1m{}\033[0m", c);
  return out;
}

std::string title(const Curve& curve, const Axis& memory, const Axis& time) {
  std::string text = fmt::format("update{} by budget{}:", time.cut() ? " (not from 0)" : "", memory.logarithmic ? " (log)" : "");
  for (const CurveMark& mark : curve.marks) text += fmt::format("  {} {}", mark.letter, mark.name);
  return text + "\n";
}

// The axis with its ticks, and labels centred under them where there is room.
std::string bottom(const Canvas& canvas, const Axis& memory, int gutter, int columns) {
  std::string line(static_cast<std::size_t>(columns), '-');
  std::string labels(static_cast<std::size_t>(gutter + columns), ' ');
  int free = 0;
  for (const Tick& tick : memory.ticks) {
    const int column = canvas.column_of(memory.share(tick.value)), length = static_cast<int>(tick.label.size());
    line[static_cast<std::size_t>(column)] = '+';
    const int begin = std::min(gutter + column - length / 2, gutter + columns - length);
    if (begin < free) continue;
    labels.replace(static_cast<std::size_t>(begin), tick.label.size(), tick.label);
    free = begin + length + 2;
  }
  return fmt::format("{:>{}}{}\n{}\n", "+", gutter, line, labels.substr(0, labels.find_last_not_of(' ') + 1));
}

}  // namespace

std::string frontier_plot(const Curve& curve, bool colour) {
  const Axis memory = memory_axis(curve, kMemoryTicks), time = time_axis(curve, kTimeTicks);
  std::size_t widest = 0;
  for (const Tick& tick : time.ticks) widest = std::max(widest, tick.label.size());
  const int gutter = static_cast<int>(widest) + 2, columns = kColumns - gutter;
  const Canvas canvas(curve, memory, time, columns);
  std::vector<std::string> labels(kRows);
  for (const Tick& tick : time.ticks) labels[static_cast<std::size_t>(Canvas::row_of(time.share(tick.value)))] = tick.label;
  std::string text = title(curve, memory, time);
  for (std::size_t row = 0; row < labels.size(); ++row) {
    text +=
        fmt::format("{:>{}} {}{}\n", labels[row], widest, labels[row].empty() ? '|' : '+', painted(canvas.rows()[row], colour));
  }
  return text + bottom(canvas, memory, gutter, columns);
}

}  // namespace plimsoll
