// The input of the search: live buffers relabelled by start, time cut into sections. A section is a maximal set of buffers that
// live at one moment; sets contained in a neighbour's are dropped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/layout/problem.h"

namespace plimsoll::layout {

// The sections [first, last) of a buffer; empty if it never lives.
struct Span {
  std::uint32_t first = 0, last = 0;
};
struct Sections {
  std::vector<Span> spans;  // by buffer
  std::uint32_t count = 0;
};
Sections sections_of(const Problem& problem);

struct Model {
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  struct Item : Span {
    std::int64_t size = 0;    // rounded up to the alignment
    std::int64_t actual = 0;  // as given
    std::int64_t fixed = -1;
    std::uint32_t buffer = 0;    // index in the problem
    std::uint32_t twin = kNone;  // the previous item that equals this one in all but `buffer`
  };

  std::vector<Item> items;  // by first section, then longest, then largest
  std::uint32_t sections = 0;
  std::vector<std::uint32_t> starts;    // items [starts[s], starts[s + 1]) begin at section s
  std::vector<std::size_t> live_begin;  // members of section s: live[live_begin[s], live_begin[s + 1])
  std::vector<std::uint32_t> live;
  std::int64_t unit = 1;  // greatest common divisor of sizes and pins

  std::uint32_t size() const { return static_cast<std::uint32_t>(items.size()); }
  std::span<const std::uint32_t> members(std::uint32_t section) const {
    return std::span(live).subspan(live_begin[section], live_begin[section + 1] - live_begin[section]);
  }
};

// An upper limit on the members of all sections together, and so on the memory of a search; larger problems are left undecided.
inline constexpr std::size_t kMostMembers = std::size_t{1} << 25;

// The model; one without sections if the problem exceeds kMostMembers.
Model make_model(const Problem& problem);

}  // namespace plimsoll::layout
