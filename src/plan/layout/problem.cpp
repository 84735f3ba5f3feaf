#include "plan/layout/problem.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/ceil_div.h"
#include "base/error.h"

namespace plimsoll::layout {
namespace {

constexpr std::int64_t kLargest = std::int64_t{1} << 62;

void validate_pins(const Problem& problem) {
  std::map<std::int64_t, std::int64_t> intervals;  // offset -> end of live pinned buffers
  for (const Event& event : events_of(problem)) {
    const Buffer& buffer = problem.buffers[event.buffer];
    if (!buffer.pinned()) continue;
    if (!event.starts) {
      intervals.erase(buffer.fixed_offset);
      continue;
    }
    const auto next = intervals.lower_bound(buffer.fixed_offset);
    const bool above = next != intervals.end() && next->first < buffer.fixed_offset + buffer.size;
    const bool below = next != intervals.begin() && std::prev(next)->second > buffer.fixed_offset;
    ensure(!above && !below, "layout", "two pinned buffers overlap in time and address");
    intervals.emplace(buffer.fixed_offset, buffer.fixed_offset + buffer.size);
  }
}

}  // namespace

std::vector<Event> events_of(const Problem& problem) {
  std::vector<Event> events;
  events.reserve(2 * problem.buffers.size());
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& buffer = problem.buffers[i];
    if (!buffer.live()) continue;
    events.push_back({buffer.lower, true, i});
    events.push_back({buffer.upper, false, i});
  }
  std::sort(events.begin(), events.end());
  return events;
}

std::int64_t load(const Problem& problem) {
  std::int64_t live = 0;
  std::int64_t most = 0;
  for (const Event& event : events_of(problem)) {
    live += event.starts ? problem.buffers[event.buffer].size : -problem.buffers[event.buffer].size;
    most = std::max(most, live);
  }
  return most;
}

std::int64_t lower_bound(const Problem& problem) {
  std::int64_t bound = 0;
  for (const Buffer& buffer : problem.buffers) {
    bound = std::max(bound, buffer.size + std::max<std::int64_t>(buffer.fixed_offset, 0));
  }
  std::int64_t live = 0;
  std::multiset<std::int64_t> padding;  // unused bytes above the top of each live buffer, if it is the topmost one
  for (const Event& event : events_of(problem)) {
    const std::int64_t size = problem.buffers[event.buffer].size;
    const std::int64_t rounded = round_up(size, problem.alignment);
    if (event.starts) {
      live += rounded;
      padding.insert(rounded - size);
      bound = std::max(bound, live - *padding.rbegin());
    } else {
      live -= rounded;
      padding.erase(padding.find(rounded - size));
    }
  }
  return bound;
}

std::int64_t height_of(const Problem& problem, const std::vector<std::int64_t>& offsets) {
  std::int64_t height = 0;
  for (std::size_t i = 0; i < offsets.size(); ++i) height = std::max(height, offsets[i] + problem.buffers[i].size);
  return height;
}

void validate(const Problem& problem) {
  ensure(problem.alignment >= 1, "layout", "the alignment is not positive");
  std::int64_t total = 0;
  for (const Buffer& buffer : problem.buffers) {
    ensure(buffer.size >= 0, "layout", "a buffer has a negative size");
    ensure(buffer.lower <= buffer.upper, "layout", "a buffer's life ends before it starts");
    ensure(buffer.fixed_offset >= -1 && buffer.fixed_offset < kLargest, "layout", "a pinned offset is out of range");
    ensure(!buffer.pinned() || buffer.fixed_offset % problem.alignment == 0, "layout", "a pinned offset is misaligned");
    const std::int64_t top = std::max<std::int64_t>(buffer.fixed_offset, 0);
    ensure(buffer.size < kLargest - problem.alignment, "layout", "a size is out of range");
    const std::int64_t rounded = round_up(buffer.size, problem.alignment);
    ensure(rounded < kLargest - top && total < kLargest - rounded - top, "layout", "the sizes add up beyond 2^62");
    total += rounded + top;
  }
  validate_pins(problem);
}

}  // namespace plimsoll::layout
