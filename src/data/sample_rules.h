// The rules of a configuration for samples of varying length.
#pragma once

#include <cstdint>

namespace plimsoll {

// The trained tokens of a conversation: those of the assistant's turns, those of its last turn, or all.
enum class TrainedTurns : std::uint8_t { assistant, last, all };

// The treatment of a sample longer than a row. automatic: texts are split, conversations lose their end.
enum class LongSamples : std::uint8_t { automatic, split, cut_begin, cut_end, drop };

}  // namespace plimsoll
