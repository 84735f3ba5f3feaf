#include "profile/parts.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace plimsoll {
namespace {

double updates_of(const MeasuredUpdates& measured) { return static_cast<double>(measured.updates.size() - 1); }

// Seconds of all measured updates by op and section, for the rounds that ran.
std::map<std::pair<std::string, std::string>, double> predicted_seconds(const Plan& plan, const MeasuredUpdates& measured) {
  std::map<std::pair<std::string, std::string>, double> seconds;
  for (std::size_t i = 0; i < plan.timeline.steps.size(); ++i) {
    const Step& step = plan.timeline.steps[i];
    if (step.kind != Step::Kind::node) continue;
    const Node& node = plan.graph.nodes[step.node];
    const StepKernel& kernel = plan.kernels[i];
    double& sum = seconds[{op_name(plan.graph, node), std::string(plan.graph.name(node.section))}];
    const InstructionTimer::Runs runs = measured.runs.at(static_cast<std::size_t>(step.section));
    sum += static_cast<double>(runs.starting) * kernel.write.seconds + static_cast<double>(runs.later) * kernel.add.seconds;
  }
  return seconds;
}

}  // namespace

UpdateParts parts_of(const MeasuredUpdates& measured) {
  const double updates = updates_of(measured);
  const SecondsByKind& seconds = measured.seconds;
  UpdateParts parts{.kernels = seconds.kernels / updates,
                    .update = seconds.update / updates,
                    .copies = (seconds.copies + seconds.exchanges) / updates};
  // A GPU may work while the host waits.
  parts.data = std::min(measured.wait_seconds(), seconds.feed / updates);
  parts.feed = seconds.feed / updates - parts.data;
  parts.other = measured.update_seconds() - parts.all();
  return parts;
}

std::vector<OpRow> op_rows(const Plan& plan, const MeasuredUpdates& measured) {
  const double updates = updates_of(measured);
  const auto predicted = predicted_seconds(plan, measured);
  std::vector<OpRow> rows;
  for (const OpSeconds& op : measured.seconds.ops) {
    OpRow& row = rows.emplace_back(OpRow{op, static_cast<double>(op.runs) / updates});
    row.measured.seconds /= updates;
    row.measured.bound /= updates;
    const auto found = predicted.find({op.op, op.section});
    if (found != predicted.end()) row.predicted = found->second / updates;
  }
  return rows;
}

}  // namespace plimsoll
