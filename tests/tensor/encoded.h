// The encoding of a whole matrix in blocks, for tests.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "weights/block_stream.h"

namespace plimsoll::test {

// The encoded bytes, made in parts of `part` bytes. `offset`: the offset of nf4_nested, instead of the mean of the scales.
inline std::vector<std::byte> encoded(const BlockMatrix& matrix, std::span<const float> elements,
                                      std::size_t part = std::size_t{1} << 30, std::optional<float> offset = std::nullopt) {
  BlockStream stream(
      matrix, [&](std::int64_t first, std::span<float> out) { std::copy_n(elements.begin() + first, out.size(), out.begin()); },
      offset);
  std::vector<std::byte> stored(static_cast<std::size_t>(stored_bytes(matrix).n), std::byte{0xEE});
  for (std::size_t at = 0; at < stored.size(); at += part) {
    stream.next(std::span(stored).subspan(at, std::min(part, stored.size() - at)));
  }
  return stored;
}

}  // namespace plimsoll::test
