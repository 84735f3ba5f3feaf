#include "cli/frontier_svg.h"

#include <fmt/format.h>

#include <map>

#include "cli/progress.h"

namespace plimsoll {
namespace {

constexpr double kWidth = 720, kHeight = 440;
constexpr double kLeft = 90, kRight = 30, kTop = 50, kBottom = 60;
constexpr int kTimeTicks = 6, kMemoryTicks = 6;
constexpr const char *kInk = "#222222", *kGrid = "#dddddd", *kCurve = "#1f5fa8", *kMark = "#c0392b";

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
  svg += text_at((kLeft + right) / 2, kHeight - 16, "middle",
                 frame.memory.logarithmic ? "memory of the process (log)" : "memory of the process");
  return svg + text_at(22, middle, "middle", "time of an update", fmt::format(" transform=\"rotate(-90 22 {:.1f})\"", middle));
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

// One ring for each marked point, with the names of all its marks and its bytes. Labels turn inwards on the right.
std::string marks_of(const Curve& curve, const Frame& frame) {
  std::map<std::size_t, std::string> names;
  for (const CurveMark& mark : curve.marks) names[mark.point] += (names[mark.point].empty() ? "" : ", ") + mark.name;
  std::string svg;
  for (const auto& [index, name] : names) {
    const CurvePoint& point = curve.points[index];
    const double x = frame.x(point), y = frame.y(point);
    const bool right = x > (kLeft + kWidth - kRight) / 2;
    svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"6\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", x, y,
                       kMark);
    svg += text_at(right ? x : x + 10, y - 12, right ? "end" : "start", fmt::format("{}: {}", name, to_text(point.memory)),
                   fmt::format(" fill=\"{}\"", kMark));
  }
  return svg;
}

}  // namespace

std::string frontier_svg(const Curve& curve) {
  const Frame frame{memory_axis(curve, kMemoryTicks), time_axis(curve, kTimeTicks)};
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
             "font-family=\"sans-serif\" font-size=\"13\" fill=\"{2}\">\n<title>Update time by memory</title>\n"
             "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
             kWidth, kHeight, kInk) +
         axes(frame) + points_of(curve, frame) + marks_of(curve, frame) + "</svg>\n";
}

}  // namespace plimsoll
