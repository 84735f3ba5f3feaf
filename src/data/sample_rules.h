// What a configuration says of samples of their own lengths.
#pragma once

#include <cstdint>

namespace plimsoll {

// Tokens of a conversation that are trained on: those of the assistant's turns, of the last of these, or all.
enum class TrainedTurns : std::uint8_t { assistant, last, all };

// A sample that is longer than a row. automatic: texts are split, conversations lose their end.
enum class LongSamples : std::uint8_t { automatic, split, cut_begin, cut_end, drop };

}  // namespace plimsoll
