#include "ops/embedding/kernels.h"

#include <numeric>

#include "ops/elementwise/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/embedding/kernels.cpp"
#include "hwy/foreach_target.h"

#include "device/cpu/map-inl.h"
#include "hwy/highway.h"
#include "ops/reduce/sum_range-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

// The columns of a task, which goes over all tokens. No two threads write one column, and every sum has the order of the tokens.
inline constexpr std::int64_t kStrip = 64;
inline constexpr std::int64_t kRowsOfTile = 256;  // rows of a task; few of them have a slot

HWY_INLINE void add_into(std::int64_t begin, std::int64_t end, const float* row, float* sum) {
  map_range(
      begin, end, [](Floats s, Floats r) HWY_ATTR { return hn::Add(s, r); }, sum, sum, row);
}

template <class T, class P>
HWY_INLINE void look_up(const EmbeddingShape& shape, TableRows rows, const std::int32_t* tokens, const T* table,
                        const P* positions, const std::int32_t* given, float* out) {
  const std::int64_t width = shape.width;
  for_row_tiles(shape.batch * shape.tokens, width, [&](std::int64_t row, std::int64_t begin, std::int64_t end) HWY_ATTR {
    if (!rows.contains(tokens[row])) return;
    const T* entry = table + (tokens[row] - rows.begin) * width;
    const auto same = [](Floats e) HWY_ATTR { return e; };
    const auto sum = [](Floats e, Floats p) HWY_ATTR { return hn::Add(e, p); };
    if (positions == nullptr) return map_range(begin, end, same, out + row * width, entry);
    const std::int64_t position = given == nullptr ? row % shape.tokens : given[row];
    map_range(begin, end, sum, out + row * width, entry, positions + position * width);
  });
}

void embedding_forward(const EmbeddingShape& shape, TableRows rows, const std::int32_t* tokens, ConstElements table,
                       const AddedPositions& positions, float* out) {
  with_f32_or_bf16(table.type, [&]<class T>(T) HWY_ATTR {
    with_f32_or_bf16(positions.table.type, [&]<class P>(P) HWY_ATTR {
      look_up(shape, rows, tokens, table.as<T>(), positions.table.as<P>(), positions.rows, out);
    });
  });
}

void embedding_token_gradient(const EmbeddingShape& shape, TableRows rows, const std::int32_t* tokens, const float* d_out,
                              std::int64_t padding, float* d_table) {
  const std::int64_t all = shape.batch * shape.tokens, width = shape.width;
  const auto add_strip = [=](std::int64_t begin, std::int64_t end) HWY_ATTR {
    for (std::int64_t row = 0; row < all; ++row) {
      if (!rows.contains(tokens[row]) || tokens[row] == padding) continue;
      add_into(begin, end, d_out + row * width, d_table + (tokens[row] - rows.begin) * width);
    }
  };
  if (all * width <= kElementTile) {
    add_strip(0, width);
  } else {
    for_tiles(width, add_strip, kStrip);
  }
}

void embedding_position_gradient(const EmbeddingShape& shape, const float* d_out, bool accumulate, float* d_positions) {
  const std::int64_t n = shape.tokens * shape.width;
  for_tiles(n, [=](std::int64_t begin, std::int64_t end) HWY_ATTR {
    constexpr std::int64_t kPiece = 1024;
    alignas(64) float sum[kPiece];
    for (std::int64_t i = begin; i < end; i += kPiece) {
      const std::int64_t count = HWY_MIN(kPiece, end - i);
      const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
      std::memcpy(sum, d_out + i, bytes);
      for (std::int64_t b = 1; b < shape.batch; ++b) add_into(0, count, d_out + b * n + i, sum);
      if (accumulate) {
        add_into(0, count, sum, d_positions + i);
      } else {
        std::memcpy(d_positions + i, sum, bytes);
      }
    }
  });
}

void add_rows(std::int64_t begin, std::int64_t count, std::int64_t width, const float* rows, const std::int32_t* map,
              float* sum) {
  const std::int64_t end = begin + count, first = begin / width, last = (end + width - 1) / width;
  for_tiles(
      last - first,
      [=](std::int64_t from, std::int64_t to) HWY_ATTR {
        for (std::int64_t row = first + from; row < first + to; ++row) {
          if (map[row] == 0) continue;
          const std::int64_t left = HWY_MAX(begin, row * width), right = HWY_MIN(end, (row + 1) * width);
          add_into(0, right - left, rows + (map[row] - 1) * width + (left - row * width), sum + (left - begin));
        }
      },
      kRowsOfTile);
}

// Adds rows to the elements [begin, end) of a table; `sum` points to the first of them.
HWY_INLINE void add_rows_of(std::int64_t begin, std::int64_t end, std::int64_t width, const float* rows, const std::int32_t* map,
                            float* sum) {
  for (std::int64_t row = begin / width; row * width < end; ++row) {
    if (map[row] == 0) continue;
    const std::int64_t left = HWY_MAX(begin, row * width), right = HWY_MIN(end, (row + 1) * width);
    add_into(0, right - left, rows + (map[row] - 1) * width + (left - row * width), sum + (left - begin));
  }
}

// The sums of tiles of kSquaresTile elements.
void tile_squares_with_rows(std::int64_t begin, std::int64_t count, std::int64_t width, const float* table, const float* rows,
                            const std::int32_t* map, double* tiles) {
  const auto square_tile = [=](std::int64_t from, std::int64_t to) HWY_ATTR {
    constexpr std::int64_t kPiece = 1024;
    alignas(64) float sum[kPiece];
    double squares = 0;
    for (std::int64_t i = from; i < to; i += kPiece) {
      const std::int64_t end = HWY_MIN(to, i + kPiece);
      std::memcpy(sum, table + i, static_cast<std::size_t>(end - i) * sizeof(float));
      if (map == nullptr) {
        add_into(0, end - i, rows + i, sum);
      } else {
        add_rows_of(begin + i, begin + end, width, rows, map, sum);
      }
      squares += sum_range(0, end - i, static_cast<const float*>(sum), Squared());
    }
    tiles[from / kSquaresTile] = squares;
  };
  for_tiles(count, square_tile, kSquaresTile);
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {

HWY_EXPORT(embedding_forward);
HWY_EXPORT(embedding_token_gradient);
HWY_EXPORT(embedding_position_gradient);
HWY_EXPORT(add_rows);
HWY_EXPORT(tile_squares_with_rows);

void embedding_forward(const EmbeddingShape& shape, TableRows rows, const std::int32_t* tokens, ConstElements table,
                       const AddedPositions& positions, float* out) {
  HWY_DYNAMIC_DISPATCH(embedding_forward)(shape, rows, tokens, table, positions, out);
}

void embedding_forward(const EmbeddingShape& shape, const std::int32_t* tokens, const StoredMatrix& matrix,
                       const std::byte* table, float* out) {
  const std::int64_t width = shape.width;
  for_row_tiles(shape.batch * shape.tokens, width, [&](std::int64_t row, std::int64_t begin, std::int64_t end) {
    read_elements(matrix, table, tokens[row] * width + begin, {out + row * width + begin, static_cast<std::size_t>(end - begin)});
  });
}

void embedding_token_gradient(const EmbeddingShape& shape, TableRows rows, const std::int32_t* tokens, const float* d_out,
                              bool accumulate, float* d_table, std::int64_t padding) {
  if (!accumulate) fill(rows.count * shape.width, 0, d_table);
  HWY_DYNAMIC_DISPATCH(embedding_token_gradient)(shape, rows, tokens, d_out, padding, d_table);
}

void embedding_position_gradient(const EmbeddingShape& shape, std::int64_t rows, const float* d_out, bool accumulate,
                                 float* d_positions) {
  HWY_DYNAMIC_DISPATCH(embedding_position_gradient)(shape, d_out, accumulate, d_positions);
  if (!accumulate) fill((rows - shape.tokens) * shape.width, 0, d_positions + shape.tokens * shape.width);
}

std::int64_t give_slots(std::int64_t tokens, std::int64_t rows, std::int64_t slots, const std::int32_t* token, std::int32_t* map,
                        std::int32_t* out, std::int64_t padding) {
  std::int32_t& used = map[rows];
  for (std::int64_t i = 0; i < tokens; ++i) {
    if (token[i] == padding) {
      out[i] = -1;
      continue;
    }
    std::int32_t& slot = map[token[i]];
    if (slot == 0) {
      if (used == slots) return slots + 1;
      slot = ++used;
    }
    out[i] = slot - 1;
  }
  return used;
}

void add_rows(std::int64_t begin, std::int64_t count, std::int64_t width, const float* rows, const std::int32_t* map,
              float* sum) {
  HWY_DYNAMIC_DISPATCH(add_rows)(begin, count, width, rows, map, sum);
}

Bytes squares_with_rows_scratch(std::int64_t elements) {
  return Bytes{ceil_div(elements, kSquaresTile) * static_cast<std::int64_t>(sizeof(double))};
}

double squares_with_rows(std::int64_t begin, std::int64_t count, std::int64_t width, const float* table, const float* rows,
                         const std::int32_t* map, double before, std::byte* scratch) {
  auto* tiles = reinterpret_cast<double*>(scratch);
  HWY_DYNAMIC_DISPATCH(tile_squares_with_rows)(begin, count, width, table, rows, map, tiles);
  return std::accumulate(tiles, tiles + ceil_div(count, kSquaresTile), before);
}

}  // namespace plimsoll::cpu
#endif
