// Accuracy of a classifier over an evaluation: rows whose label is among the largest logits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "graph/builder.h"

namespace plimsoll::ops {

// The counts of an evaluation: rows whose label has the largest logit, and one of the five largest. Of equal logits the lower
// class counts as larger. NaN counts as larger than the logit of the label; a label whose logit is NaN comes last.
inline constexpr std::array<std::int64_t, 2> kTopClasses{1, 5};
inline constexpr std::size_t kTop1 = 0, kTop5 = 1;

// count_correct: (logits f32 [..., classes], labels i32 [...], counts f64 [2]) -> counts. Rows with a label below zero are
// ignored.
extern const OpDef kCountCorrect;

}  // namespace plimsoll::ops
