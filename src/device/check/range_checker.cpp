#include "device/check/range_checker.h"

#include <fmt/core.h>

#include <iterator>

#include "base/error.h"

namespace plimsoll {

void RangeChecker::split(std::int64_t at) {
  auto range = std::prev(ranges_.upper_bound(at));
  if (range->first == at || at >= range->second.end) return;
  const Range right = range->second;
  range->second.end = at;
  ranges_[at] = right;
}

void RangeChecker::write(Bytes offset, Bytes bytes, std::uint32_t tag, const Describe& instruction) {
  if (bytes.n == 0) return;
  const std::int64_t begin = offset.n, end = (offset + bytes).n;
  if (begin < 0 || end > ranges_.rbegin()->second.end) {
    throw internal_error("check", fmt::format("{} writes [{}, {}) outside the arena", instruction(), begin, end));
  }
  split(begin);
  split(end);
  ranges_.erase(ranges_.lower_bound(begin), ranges_.lower_bound(end));
  ranges_[begin] = {end, tag};
}

void RangeChecker::read(Bytes offset, Bytes bytes, std::uint32_t tag, const Describe& instruction) const {
  if (bytes.n == 0) return;
  const std::int64_t end = (offset + bytes).n;
  if (offset.n < 0 || end > ranges_.rbegin()->second.end) {
    throw internal_error("check", fmt::format("{} reads [{}, {}) outside the arena", instruction(), offset.n, end));
  }
  auto range = std::prev(ranges_.upper_bound(offset.n));
  for (std::int64_t at = offset.n; at < end; at = (range++)->second.end) {
    if (range->second.tag != tag) {
      throw internal_error("check", fmt::format("{} reads value {} at byte {}, where value {} was written last", instruction(),
                                                tag, at, range->second.tag));
    }
  }
}

}  // namespace plimsoll
