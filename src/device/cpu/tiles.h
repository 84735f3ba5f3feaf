// The cut of loops over flat arrays and over rows into tasks. It depends on the shape alone. An array of one tile is one task,
// because waking the team costs more than the work.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/ceil_div.h"
#include "device/cpu/parallel.h"

namespace plimsoll::cpu {

inline constexpr std::int64_t kElementTile = 16 * 1024;

// Calls body(begin, end) for tiles that cover [0, n).
template <class Body>
void for_tiles(std::int64_t n, Body&& body, std::int64_t tile = kElementTile) {
  parallel_for(ceil_div(n, tile), [&](std::int64_t t) { body(t * tile, std::min(n, (t + 1) * tile)); });
}

// Calls body(row) for each row of n elements; short rows share a task.
template <class Body>
void for_rows(std::int64_t rows, std::int64_t n, Body&& body) {
  for_tiles(
      rows,
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) body(row);
      },
      std::max<std::int64_t>(1, kElementTile / std::max<std::int64_t>(1, n)));
}

// Calls body(row, begin, end) for pieces that cover [0, n) of each row: long rows are cut, short ones share a task.
template <class Body>
void for_row_tiles(std::int64_t rows, std::int64_t n, Body&& body) {
  if (n <= 0) return;
  if (n > kElementTile) {
    const std::int64_t per_row = ceil_div(n, kElementTile);
    parallel_for(rows * per_row, [&](std::int64_t t) {
      const std::int64_t begin = t % per_row * kElementTile;
      body(t / per_row, begin, std::min(n, begin + kElementTile));
    });
    return;
  }
  for_rows(rows, n, [&](std::int64_t row) { body(row, std::int64_t{0}, n); });
}

}  // namespace plimsoll::cpu
