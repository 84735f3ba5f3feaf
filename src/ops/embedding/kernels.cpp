#include "ops/embedding/kernels.h"

#include "ops/elementwise/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/embedding/kernels.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "ops/elementwise/map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

// A thread owns a strip of columns and walks all tokens: no two threads meet, and every sum has the order of the tokens.
inline constexpr std::int64_t kStrip = 64;

HWY_INLINE void add_into(std::int64_t begin, std::int64_t end, const float* row, float* sum) {
  map_range(
      begin, end, [](Floats s, Floats r) HWY_ATTR { return hn::Add(s, r); }, sum, sum, row);
}

void embedding_forward(const EmbeddingShape& shape, TableRows rows, const std::int32_t* tokens, const float* table,
                       const float* positions, float* out) {
  const std::int64_t width = shape.width;
  for_row_tiles(shape.batch * shape.tokens, width, [&](std::int64_t row, std::int64_t begin, std::int64_t end) HWY_ATTR {
    if (!rows.contains(tokens[row])) return;
    const float* entry = table + (tokens[row] - rows.begin) * width;
    if (positions == nullptr) {
      std::memcpy(out + row * width + begin, entry + begin, static_cast<std::size_t>(end - begin) * sizeof(float));
    } else {
      const auto sum = [](Floats e, Floats p) HWY_ATTR { return hn::Add(e, p); };
      map_range(begin, end, sum, out + row * width, entry, positions + row % shape.tokens * width);
    }
  });
}

void embedding_token_gradient(const EmbeddingShape& shape, TableRows rows, const std::int32_t* tokens, const float* d_out,
                              float* d_table) {
  const std::int64_t all = shape.batch * shape.tokens, width = shape.width;
  const auto add_strip = [=](std::int64_t begin, std::int64_t end) HWY_ATTR {
    for (std::int64_t row = 0; row < all; ++row) {
      if (!rows.contains(tokens[row])) continue;
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

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {

HWY_EXPORT(embedding_forward);
HWY_EXPORT(embedding_token_gradient);
HWY_EXPORT(embedding_position_gradient);

void embedding_forward(const EmbeddingShape& shape, TableRows rows, const std::int32_t* tokens, const float* table,
                       const float* positions, float* out) {
  HWY_DYNAMIC_DISPATCH(embedding_forward)(shape, rows, tokens, table, positions, out);
}

void embedding_token_gradient(const EmbeddingShape& shape, TableRows rows, const std::int32_t* tokens, const float* d_out,
                              bool accumulate, float* d_table) {
  if (!accumulate) fill(rows.count * shape.width, 0, d_table);
  HWY_DYNAMIC_DISPATCH(embedding_token_gradient)(shape, rows, tokens, d_out, d_table);
}

void embedding_position_gradient(const EmbeddingShape& shape, std::int64_t rows, const float* d_out, bool accumulate,
                                 float* d_positions) {
  HWY_DYNAMIC_DISPATCH(embedding_position_gradient)(shape, d_out, accumulate, d_positions);
  if (!accumulate) fill((rows - shape.tokens) * shape.width, 0, d_positions + shape.tokens * shape.width);
}

}  // namespace plimsoll::cpu
#endif
