#include "verify/shown_gradient.h"

#include <fmt/core.h>

namespace plimsoll::verification {

const Changes kShowGradient{
    {"optimizer.name", "sgd"},        {"optimizer.momentum", "1e-30"},      {"optimizer.nesterov", "false"},
    {"optimizer.decay", "all"},       {"optimizer.weight_decay", "0"},      {"optimizer.learning_rate", "1e-30"},
    {"train.gradient_clip", "0"},     {"train.gradient_clip_value", "0"},   {"optimizer.ema_half_life", "none"},
    {"optimizer.half_lives", "none"}, {"precision.optimizer_state", "fp32"}};

const Changes kExact{{"precision.parameters", "fp32"}, {"precision.compute", "fp32"}, {"precision.gradients", "fp32"}};

Changes with(Changes changes, const Changes& more) {
  changes.insert(changes.end(), more.begin(), more.end());
  return changes;
}

Changes trial_changes(const Changes& extract, std::int64_t samples, std::int64_t group) {
  Changes changes = with(extract, {{"data.validation"},
                                   {"plan.group", "auto"},
                                   {"train.evaluate_every", "0"},
                                   {"save.every", "0"},
                                   {"train.effective_batch", samples}});
  if (group > 0) changes.emplace_back("norm.stat_batch", group);
  return changes;
}

std::string weights_text(std::span<const double> weights) {
  std::string text = "weights=";
  for (const double weight : weights) text += fmt::format("{}{:.17g}", text.back() == '=' ? "" : ",", weight);
  return text;
}

std::string percent(double ratio) { return fmt::format("{:.2g} %", 100 * ratio); }
std::string relative(double ratio) { return ratio == 0 ? "0" : fmt::format("{:.1e}", ratio); }

}  // namespace plimsoll::verification
