// Counts of the samples and texts that a training reads, by their treatment.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

namespace plimsoll {

struct SampleCounts {
  std::int64_t read = 0;        // in the data
  std::int64_t untrained = 0;   // without a trained token; left out
  std::int64_t dropped = 0;     // too long; left out
  std::int64_t cut = 0;         // too long; the excess over a row is left out
  std::int64_t split = 0;       // too long; split into several samples
  std::int64_t unended = 0;     // without a trained token that ends an answer
  std::int64_t own_begins = 0;  // texts with their own begin token; none is added
  std::int64_t own_ends = 0;    // texts with their own end token; none is added
  std::int64_t doubled = 0;     // samples with the same end token twice in a row, or two begin tokens at the front
  std::int64_t not_utf8 = 0;    // bytes of texts that belong to no UTF-8 character

  friend bool operator==(const SampleCounts&, const SampleCounts&) = default;
};

// The counts under their names in plans and reports.
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
