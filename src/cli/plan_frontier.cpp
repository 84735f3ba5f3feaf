#include "cli/plan_frontier.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/frontier_curve.h"
#include "cli/frontier_plot.h"
#include "cli/plan_text.h"
#include "cli/progress.h"

namespace plimsoll {
namespace {

using nlohmann::json;

bool paged(const json& point) { return !point.at("decisions").at("paging").is_null(); }

std::string heading(bool with_disk) {
  return fmt::format("{:4}{:>10}{:>9}{:>8}{:>10}{:>12}{:>6}{:>10}{:>6}{:>6}{:>10}{:>7}{:>7}{}\n", "", "budget", "update", "tok/s",
                     "slower", "micro x acc", "loss", "next MiB", "keep", "cheap", "recompute", "pieces", "joined",
                     with_disk ? " paged" : "");
}

std::string saved_text(const json& seconds) {
  if (seconds.is_null()) return "-";
  return seconds.get<double>() < 1e-6 ? "<1 us" : duration_text(seconds.get<double>());
}

// Of frontier rows, "1 x 8 by 4": micro-batches of one, eight in a window, four through each block together.
std::string batch_text(const json& point) {
  const auto group = point.at("decisions").at("group").get<std::int64_t>();
  return fmt::format("{} x {}{}", point.at("micro_batch").get<std::int64_t>(), point.at("accumulation").get<std::int64_t>(),
                     group == 1 ? "" : fmt::format(" by {}", group));
}

std::string row(const std::string& marks, const json& point, double fastest, bool with_disk) {
  const double seconds = point.at("update_seconds").get<double>();
  const std::map<std::string, int> blocks = blocks_by_mode(point.at("decisions"));
  const auto count = [&](const char* mode) {
    const auto found = blocks.find(mode);
    return found == blocks.end() ? std::string("-") : std::to_string(found->second);
  };
  return fmt::format("{:<4}{:>10}{:>9}{:>8}{:>10}{:>12}{:>6}{:>10}{:>6}{:>6}{:>10}{:>7}{:>7}{}\n", marks,
                     to_text(Bytes{point.at("process_bytes").get<std::int64_t>()}), duration_text(seconds),
                     rate_text(point.at("tokens_per_second").get<double>()),
                     fastest > 0 ? fmt::format("{:+.1f} %", 100 * (seconds / fastest - 1)) : "", batch_text(point),
                     point.at("loss_chunks").get<int>(), saved_text(point.at("seconds_per_mib")), count("keep"), count("cheap"),
                     count("recompute"), count("pieces"), count("joined"),
                     with_disk ? fmt::format("{:>6}", paged(point) ? "yes" : "-") : "");
}

std::string frontier_table(const json& frontier, const Curve& curve) {
  const bool with_disk = std::any_of(frontier.begin(), frontier.end(), paged);
  const double fastest = frontier.back().at("update_seconds").get<double>();
  std::string text = heading(with_disk);
  for (std::size_t i = 0; i < frontier.size(); ++i) {
    std::string marks;
    for (const CurveMark& mark : curve.marks) marks += mark.point == i ? std::string(1, mark.letter) : "";
    text += row(marks, frontier[i], fastest, with_disk);
  }
  return text + "next MiB: what each MiB more saves of an update, on the way to the next row\n";
}

}  // namespace

std::string frontier_text(const json& plan, bool colour) {
  const Curve curve = curve_of(plan);
  return frontier_table(plan.at("frontier"), curve) + "\n" + frontier_plot(curve, colour);
}

}  // namespace plimsoll
