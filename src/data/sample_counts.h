// Counts of the samples and texts that a training reads, by what happened to them, as far as a user must know.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

namespace plimsoll {

struct SampleCounts {
  std::int64_t read = 0;        // in the data
  std::int64_t untrained = 0;   // without a token that is trained on; left out
  std::int64_t dropped = 0;     // too long; left out
  std::int64_t cut = 0;         // too long; what does not fit a row is left out
  std::int64_t split = 0;       // too long; several samples now
  std::int64_t unended = 0;     // answers without an end: no token that ends one is trained on
  std::int64_t own_begins = 0;  // texts that begin with the begin token themselves; none is added
  std::int64_t own_ends = 0;    // texts that end with the end token themselves; none is added
  std::int64_t doubled = 0;     // samples with an end token right behind the same end token, or two begin tokens at the front
  std::int64_t not_utf8 = 0;    // bytes of a text that belong to no character

  friend bool operator==(const SampleCounts&, const SampleCounts&) = default;
};

// The counts under the names that plans and reports have for them.
inline constexpr std::array<std::pair<const char*, std::int64_t SampleCounts::*>, 10> kSampleCounts{
    {{"samples", &SampleCounts::read},
     {"untrained", &SampleCounts::untrained},
     {"dropped", &SampleCounts::dropped},
     {"cut", &SampleCounts::cut},
     {"split", &SampleCounts::split},
     {"unended", &SampleCounts::unended},
     {"own_begins", &SampleCounts::own_begins},
     {"own_ends", &SampleCounts::own_ends},
     {"doubled", &SampleCounts::doubled},
     {"not_utf8", &SampleCounts::not_utf8}}};

}  // namespace plimsoll
