// Static memory allocation: buffers with half-open lives [lower, upper) and sizes in bytes get offsets so that buffers that live
// at the same time do not overlap in address. Pinned buffers (fixed_offset >= 0) keep their offset. The height of a solution is
// the largest offset + size over all buffers. Buffers without size or with an empty life conflict with nothing.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace plimsoll::layout {

struct Buffer {
  std::int64_t lower = 0;
  std::int64_t upper = 0;
  std::int64_t size = 0;
  std::int64_t fixed_offset = -1;  // -1: free

  bool pinned() const { return fixed_offset >= 0; }
  bool live() const { return size > 0 && lower < upper; }
};

struct Problem {
  std::vector<Buffer> buffers;
  std::int64_t alignment = 1;  // of every offset
};

struct Solution {
  std::vector<std::int64_t> offsets;
  std::int64_t height = 0;
};

// The start or end of a buffer's life. Ordered by time; ends come before starts at the same time.
struct Event {
  std::int64_t time;
  bool starts;
  std::size_t buffer;
  friend auto operator<=>(const Event&, const Event&) = default;
};
// The events of all buffers that are ever live, in order.
std::vector<Event> events_of(const Problem& problem);

// The most bytes that are live at one moment. O(n log n).
std::int64_t load(const Problem& problem);

// A lower bound on the height of every solution: the load with sizes rounded up to the alignment where others lie above, the
// largest buffer, the tops of pinned buffers. Equal to the load if alignment, pins and empty lives have no effect.
std::int64_t lower_bound(const Problem& problem);

// The largest offset + size under `offsets`.
std::int64_t height_of(const Problem& problem, const std::vector<std::int64_t>& offsets);

// Throws an internal error for a problem that no solver accepts: negative sizes, reversed lives, sums beyond 2^62, pins that are
// misaligned or overlap each other.
void validate(const Problem& problem);

}  // namespace plimsoll::layout
