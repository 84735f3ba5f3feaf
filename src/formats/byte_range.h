// Bytes [begin, end) of a text.
#pragma once

#include <cstddef>

namespace plimsoll {

struct ByteRange {
  std::size_t begin = 0, end = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

}  // namespace plimsoll
