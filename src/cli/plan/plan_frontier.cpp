#include "cli/plan/plan_frontier.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/plan/frontier_curve.h"
#include "cli/plan/frontier_plot.h"
#include "cli/plan/plan_text.h"
#include "cli/progress.h"

namespace plimsoll {
namespace {

using nlohmann::json;

bool paged(const json& point) { return !point.at("decisions").at("paging").is_null(); }

// A row of up to 80 columns; letters stand for the modes of blocks.
constexpr const char* kRow = "{:<4}{:>10}{:>8}{:>9}{:>13}{:>6}{:>9}  {}\n";

std::string heading() {
  return fmt::format(fmt::runtime(kRow), "", "budget", "update", "slower", "micro x acc", "loss", "next MiB", "blocks");
}

std::string saved_text(const json& seconds) {
  if (seconds.is_null()) return "-";
  return seconds.get<double>() < 1e-6 ? "<1 us" : duration_text(seconds.get<double>());
}

// "1 x 8 by 4": micro-batches of one sample, eight per window, four through each block together.
std::string batch_text(const json& point) {
  const auto group = point.at("decisions").at("group").get<std::int64_t>();
  return fmt::format("{} x {}{}", point.at("micro_batch").get<std::int64_t>(), point.at("accumulation").get<std::int64_t>(),
                     group == 1 ? "" : fmt::format(" by {}", group));
}

// "k8 c2 r2 d": 8 blocks keep, 2 are cheap, 2 recompute; d: a part of the training rests on another tier.
std::string blocks_text(const json& point) {
  const std::map<std::string, int> blocks = blocks_by_mode(point.at("decisions"));
  std::string text;
  for (const char* mode : {"keep", "cheap", "recompute", "pieces", "joined"}) {
    const auto found = blocks.find(mode);
    if (found != blocks.end()) text += fmt::format("{}{}{}", text.empty() ? "" : " ", mode[0], found->second);
  }
  return text + (paged(point) ? (text.empty() ? "d" : " d") : "");
}

std::string row(const std::string& marks, const json& point, double fastest) {
  const double seconds = point.at("update_seconds").get<double>();
  return fmt::format(fmt::runtime(kRow), marks, to_text(Bytes{point.at("process_bytes").get<std::int64_t>()}),
                     duration_text(seconds), fastest > 0 ? fmt::format("{:+.1f} %", 100 * (seconds / fastest - 1)) : "",
                     batch_text(point), point.at("loss_chunks").get<int>(), saved_text(point.at("seconds_per_mib")),
                     blocks_text(point));
}

std::string frontier_table(const json& frontier, const Curve& curve) {
  const double fastest = frontier.back().at("update_seconds").get<double>();
  std::string text = heading();
  for (std::size_t i = 0; i < frontier.size(); ++i) {
    std::string marks;
    for (const CurveMark& mark : curve.marks) marks += mark.point == i ? std::string(1, mark.letter) : "";
    text += row(marks, frontier[i], fastest);
  }
  text +=
      "next MiB: the gain in update time for each extra MiB, up to the next row\n"
      "blocks: k keep, c recompute cheap values, r recompute, p in pieces,\n"
      "        j with the block before";
  const bool beyond = std::any_of(frontier.begin(), frontier.end(), paged);
  return text + (beyond ? "; d: a part of the training rests beyond memory\n" : "\n");
}

}  // namespace

std::string frontier_text(const json& plan, bool colour) {
  const Curve curve = curve_of(plan);
  return frontier_table(plan.at("frontier"), curve) + "\n" + frontier_plot(curve, colour);
}

}  // namespace plimsoll
