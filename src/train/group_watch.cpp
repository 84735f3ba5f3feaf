#include "train/group_watch.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "ops/reduce/reduce.h"
#include "train/loss_scale.h"

namespace plimsoll {
namespace {

const char *const kLargeUpdates = "UPDATE_RATIO", *const kDeadGradient = "DEAD_GRADIENT", *const kUnderflow = "UNDERFLOW";

constexpr std::int64_t kFirst = 32;
constexpr int kLarge = 20, kDead = 50, kSmall = 20;  // updates in a row
constexpr double kMostRatio = 0.1, kMostSmall = 0.05;

std::span<const double> part_of(std::span<const double> report, std::size_t i) {
  return report.subspan(i * kReported, kReported);
}
std::span<const double> counts_of(std::span<const double> counts, std::size_t i) {
  return counts.subspan(i * ops::kCounts, ops::kCounts);
}

double ratio_of(double step_squares, double parameter_squares) {
  return parameter_squares == 0 ? 0 : std::sqrt(step_squares / parameter_squares);
}

double small_share(std::span<const double> counts) {
  const double numbers = counts[ops::kElements] - counts[ops::kZeros];
  return numbers == 0 ? 0 : counts[ops::kSubnormals] / numbers;
}

void add(GroupWarning& warning, const std::string& name, double value) {
  warning.names.push_back(name);
  warning.most = std::max(warning.most, value);
}

// "h.0.attn.c_attn.weight and 11 others"
std::string named(const std::vector<std::string>& names) {
  if (names.size() == 1) return names.front();
  return fmt::format("{} and {} other{}", names.front(), names.size() - 1, names.size() == 2 ? "" : "s");
}

}  // namespace

bool GroupWatch::Streak::add(bool bad, int limit) {
  updates = bad ? updates + 1 : 0;
  return updates >= limit && !std::exchange(told, true);
}

GroupWatch::GroupWatch(std::vector<Group> parameters, std::vector<std::string> gradients, std::int64_t warmup_updates)
    : parameters_(std::move(parameters)),
      gradients_(std::move(gradients)),
      warmup_(std::max(warmup_updates, kFirst)),
      large_(parameters_.size()),
      dead_(parameters_.size()),
      small_(gradients_.size()) {}

std::vector<GroupWarning> GroupWatch::see(std::int64_t update, std::span<const double> report) {
  ensure(report.size() == kReported * parameters_.size(), "group watch", "a report of other parameters");
  GroupWarning large{kLargeUpdates, {}, 0, {}}, dead{kDeadGradient, {}, 0, {}};
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const std::span<const double> squares = part_of(report, i);
    const double ratio = ratio_of(squares[kStepSquares], squares[kParameterSquares]);
    const bool counts = update > warmup_ && parameters_[i].matrix;
    if (large_[i].add(counts && ratio > kMostRatio, kLarge)) add(large, parameters_[i].name, ratio);
    if (dead_[i].add(squares[kGradientSquares] == 0, kDead)) add(dead, parameters_[i].name, 0);
  }
  std::vector<GroupWarning> warnings;
  if (!large.names.empty()) {
    large.text = fmt::format(
        "{} updates in a row changed {} by more than a tenth, now by {:.2g} of its size: a lower learning "
        "rate, or larger initial values",
        kLarge, named(large.names), large.most);
    warnings.push_back(std::move(large));
  }
  if (!dead.names.empty()) {
    dead.text = fmt::format("{} gradients in a row of {} were zero in all elements: it does not learn", kDead, named(dead.names));
    warnings.push_back(std::move(dead));
  }
  return warnings;
}

std::vector<GroupWarning> GroupWatch::see_small(std::span<const double> counts, double scale) {
  ensure(counts.size() == ops::kCounts * gradients_.size(), "group watch", "counts of other gradients");
  GroupWarning small{kUnderflow, {}, 0, {}};
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    const double share = small_share(counts_of(counts, i));
    if (small_[i].add(share > kMostSmall && scale < LossScale::kMost, kSmall)) add(small, gradients_[i], share);
  }
  if (small.names.empty()) return {};
  small.text = fmt::format(
      "of {} up to {:.0f} % lose digits in fp16, with a loss scale of {:g}: a shorter "
      "precision.loss_scale_growth lets it rise sooner, and bf16 needs none",
      named(small.names), 100 * small.most, scale);
  return {std::move(small)};
}

void GroupWatch::was_told(const std::string& reason, const std::string& name) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].name != name) continue;
    if (reason == kLargeUpdates) large_[i].told = true;
    if (reason == kDeadGradient) dead_[i].told = true;
  }
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    if (gradients_[i] == name && reason == kUnderflow) small_[i].told = true;
  }
}

double GroupWatch::update_ratio(std::span<const double> report) {
  double step = 0, parameter = 0;
  for (std::size_t i = 0; i < report.size() / kReported; ++i) {
    step += part_of(report, i)[kStepSquares];
    parameter += part_of(report, i)[kParameterSquares];
  }
  return ratio_of(step, parameter);
}

double GroupWatch::underflow(std::span<const double> counts) {
  double most = 0;
  for (std::size_t i = 0; i < counts.size() / ops::kCounts; ++i) most = std::max(most, small_share(counts_of(counts, i)));
  return most;
}

GroupWatch group_watch(const Graph& graph, const TrainingValues& training, const std::optional<UnderflowMeter>& underflow,
                       std::int64_t warmup_updates) {
  std::vector<GroupWatch::Group> groups;
  for (const ValueId id : training.reported) {
    const Value& value = graph.values[id];
    groups.push_back({value.name.text(), tensor_shape(value).rank() >= 2});
  }
  return {std::move(groups), underflow ? underflow->gradients : std::vector<std::string>{}, warmup_updates};
}

}  // namespace plimsoll
