#include "cli/plan/frontier_svg.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <vector>

#include "cli/progress.h"

namespace plimsoll {
namespace {

constexpr double kWidth = 720, kHeight = 440;
constexpr double kLeft = 90, kRight = 45, kTop = 76, kBottom = 60;
constexpr int kTimeTicks = 6, kMemoryTicks = 6;
// The colours of the page of a run (report/style.h). A viewer without style sheets shows the light ones.
constexpr const char *kInk = "#1a1f26", *kGrid = "#e3e7eb", *kCurve = "#0072b2", *kMark = "#008460", *kBudget = "#d55e00";
constexpr const char* kDark =
    "<style>@media (prefers-color-scheme:dark){svg{fill:#e6eaee}[fill=\"#ffffff\"]{fill:#14181d}"
    "[stroke=\"#1a1f26\"]{stroke:#e6eaee}[stroke=\"#e3e7eb\"]{stroke:#2b333c}[stroke=\"#0072b2\"]{stroke:#4aa8e8}"
    "[fill=\"#0072b2\"]{fill:#4aa8e8}[stroke=\"#008460\"]{stroke:#2cc295}[fill=\"#008460\"]{fill:#2cc295}"
    "[stroke=\"#d55e00\"]{stroke:#f2803b}[fill=\"#d55e00\"]{fill:#f2803b}}</style>\n";

struct Frame {
  Axis memory, time;

  double x(double bytes) const { return kLeft + memory.share(bytes) * (kWidth - kLeft - kRight); }
  double y(double seconds) const { return kHeight - kBottom - time.share(seconds) * (kHeight - kTop - kBottom); }
  double x(const CurvePoint& point) const { return x(static_cast<double>(point.memory.n)); }
  double y(const CurvePoint& point) const { return y(point.seconds); }
};

std::string line(double x1, double y1, double x2, double y2, const char* colour) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x1, y1, x2, y2, colour);
}

std::string text_at(double x, double y, const char* anchor, const std::string& text, const std::string& more = {}) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor, more, text);
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return out;
}

// Two strokes across an axis that does not begin at 0.
std::string break_mark(double x, double y, bool upright) {
  std::string svg;
  for (const double shift : {-3.0, 3.0}) {
    const double at_x = upright ? x : x + shift, at_y = upright ? y + shift : y;
    svg += upright ? line(at_x - 6, at_y + 3, at_x + 6, at_y - 3, kInk) : line(at_x - 3, at_y + 6, at_x + 3, at_y - 6, kInk);
  }
  return svg;
}

std::string axis_title(const char* what, const Axis& axis) {
  return fmt::format("{}{}", what, axis.logarithmic ? " (log)" : axis.cut() ? " (not from 0)" : "");
}

std::string axes(const Frame& frame) {
  const double right = kWidth - kRight, low = kHeight - kBottom, middle = (kTop + low) / 2;
  std::string svg;
  for (const Tick& tick : frame.memory.ticks) {
    const double x = frame.x(tick.value);
    svg += line(x, kTop, x, low, kGrid) + text_at(x, low + 20, "middle", tick.label);
  }
  for (const Tick& tick : frame.time.ticks) {
    const double y = frame.y(tick.value);
    svg += line(kLeft, y, right, y, kGrid) + text_at(kLeft - 8, y + 4, "end", tick.label);
  }
  svg += line(kLeft, low, right, low, kInk) + line(kLeft, kTop, kLeft, low, kInk);
  if (frame.memory.cut()) svg += break_mark(kLeft + 14, low, false);
  if (frame.time.cut()) svg += break_mark(kLeft, low - 14, true);
  svg += text_at((kLeft + right) / 2, kHeight - 16, "middle", axis_title("memory of the process", frame.memory));
  return svg + text_at(22, middle, "middle", axis_title("time of an update", frame.time),
                       fmt::format(" transform=\"rotate(-90 22 {:.1f})\"", middle));
}

std::string points_of(const Curve& curve, const Frame& frame) {
  std::string path, dots;
  for (const CurvePoint& point : curve.points) {
    path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", frame.x(point), frame.y(point));
    dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"><title>{}, {}</title></circle>\n",
                        frame.x(point), frame.y(point), kCurve, to_text(point.memory), duration_text(point.seconds));
  }
  return fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", path, kCurve) + dots;
}

// The places of texts and points, so that texts do not overlap.
class Room {
 public:
  struct Box {
    double left, top, right, bottom;
  };
  bool is_free(const Box& box) const {
    if (box.left < kLeft + 2 || box.right > kWidth - kRight || box.top < kTop - 20 || box.bottom > kHeight - kBottom - 2)
      return false;
    return std::ranges::none_of(taken_, [&](const Box& other) {
      return box.left < other.right && other.left < box.right && box.top < other.bottom && other.top < box.bottom;
    });
  }
  void take(const Box& box) { taken_.push_back(box); }

 private:
  std::vector<Box> taken_;
};

constexpr double kLetter = 7, kLine = 15;

// A text next to (x, y), at the nearest free place.
std::string label(Room& room, double x, double y, const std::string& text, const char* colour) {
  const double width = kLetter * static_cast<double>(text.size());
  for (int ring = 1; ring < 20; ++ring) {
    for (const double down : {-1.0, 1.0}) {
      for (const double left : {x + 8, x - 8 - width, x - width / 2}) {
        const double base = y + down * ring * kLine * 0.8 + (down > 0 ? 8 : 0);
        const Room::Box box{left, base - kLine + 3, left + width, base + 3};
        if (!room.is_free(box)) continue;
        room.take(box);
        return text_at(left, base, "start", text, fmt::format(" fill=\"{}\"", colour));
      }
    }
  }
  return "";
}

// One ring for each marked point, with the names of all its marks and its bytes.
std::string marks_of(const Curve& curve, const Frame& frame, Room& room) {
  std::map<std::size_t, std::string> names;
  for (const CurveMark& mark : curve.marks) names[mark.point] += (names[mark.point].empty() ? "" : ", ") + mark.name;
  std::string svg;
  for (const auto& [index, name] : names) {
    const CurvePoint& point = curve.points[index];
    svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"6\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n",
                       frame.x(point), frame.y(point), kMark);
  }
  for (const auto& [index, name] : names) {
    const CurvePoint& point = curve.points[index];
    svg += label(room, frame.x(point), frame.y(point), fmt::format("{}: {}", name, to_text(point.memory)), kMark);
  }
  return svg;
}

// The budget as a dashed line; if it lies outside of the drawing, a word at that side.
std::string budget_of(const Curve& curve, const Frame& frame, Room& room) {
  if (!curve.budget) return "";
  const auto budget = static_cast<double>(curve.budget->n);
  const std::string text = "budget: " + to_text(*curve.budget);
  const double width = kLetter * static_cast<double>(text.size() + 3);
  if (budget > frame.memory.high || budget < frame.memory.low) {
    const bool above = budget > frame.memory.high;
    const double left = above ? kWidth - kRight - width : kLeft + 4;
    room.take({left, kTop - 18, left + width, kTop - 2});
    return text_at(above ? kWidth - kRight : left, kTop - 6, above ? "end" : "start", above ? text + " \u2192" : "\u2190 " + text,
                   fmt::format(" fill=\"{}\"", kBudget));
  }
  const double x = frame.x(budget);
  const bool left = x > (kLeft + kWidth - kRight) / 2;
  room.take({left ? x - width : x, kTop - 18, left ? x : x + width, kTop - 2});
  room.take({x - 2, kTop, x + 2, kHeight - kBottom});
  return fmt::format(
             "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"{3}\" stroke-width=\"2\" "
             "stroke-dasharray=\"6 4\"/>\n",
             x, kTop - 18, kHeight - kBottom, kBudget) +
         text_at(left ? x - 6 : x + 6, kTop - 6, left ? "end" : "start", text, fmt::format(" fill=\"{}\"", kBudget));
}

// Reserves the room of the curve's points and lines.
void take_curve(const Curve& curve, const Frame& frame, Room& room) {
  constexpr int kParts = 24;
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    const CurvePoint &a = curve.points[i], &b = curve.points[std::min(i + 1, curve.points.size() - 1)];
    for (int part = 0; part <= kParts; ++part) {
      const double share = static_cast<double>(part) / kParts;
      const double x = frame.x(a) + share * (frame.x(b) - frame.x(a)), y = frame.y(a) + share * (frame.y(b) - frame.y(a));
      room.take({x - 4, y - 4, x + 4, y + 4});
    }
  }
}

std::string description_of(const Curve& curve) {
  if (curve.points.empty()) return "No plan.";
  const CurvePoint &least = curve.points.front(), &most = curve.points.back();
  return fmt::format("From {} and {} an update to {} and {}.", to_text(least.memory), duration_text(least.seconds),
                     to_text(most.memory), duration_text(most.seconds));
}

}  // namespace

std::string frontier_svg(const Curve& curve) {
  const Frame frame{memory_axis(curve, kMemoryTicks), time_axis(curve, kTimeTicks)};
  Room room;
  take_curve(curve, frame, room);
  const std::string budget = budget_of(curve, frame, room);
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" role=\"img\" "
             "font-family=\"system-ui, Roboto, Arial, sans-serif\" font-size=\"13\" fill=\"{2}\">\n"
             "<title>Update time by memory: {3}</title>\n<desc>{4}</desc>\n{5}<rect width=\"{0}\" height=\"{1}\" "
             "fill=\"#ffffff\"/>\n",
             kWidth, kHeight, kInk, escaped(curve.title), escaped(description_of(curve)), kDark) +
         text_at(kWidth / 2, 24, "middle", "Update time by memory", " font-size=\"16\" font-weight=\"bold\"") +
         text_at(kWidth / 2, 44, "middle", escaped(curve.title)) + axes(frame) + budget + points_of(curve, frame) +
         marks_of(curve, frame, room) + "</svg>\n";
}

}  // namespace plimsoll
