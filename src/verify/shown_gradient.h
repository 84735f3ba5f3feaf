// Settings and texts of trials whose last checkpoint shows the gradient of a window.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/remedy.h"

namespace plimsoll::verification {

// The state of plain SGD without past velocity is the gradient of the last window, bit by bit, and the weights do not change. A
// saved run thus shows the gradient under every plan, without access to the trainer.
inline constexpr std::string_view kGradient = ".momentum";
extern const Changes kShowGradient;
extern const Changes kExact;  // fp32

Changes with(Changes changes, const Changes& more);

// The changes of all trials on an extract of the data (`extract`): windows of `samples`, without evaluations and saves on the
// way. `group`: samples that share the statistics of batch normalisation; 0: none.
Changes trial_changes(const Changes& extract, std::int64_t samples, std::int64_t group);

// The fault that weights the micro-batches of a window: "weights=0.5,1".
std::string weights_text(std::span<const double> weights);

std::string percent(double ratio);   // "1.2 %"
std::string relative(double ratio);  // "1.2e-06"

}  // namespace plimsoll::verification
