#include "ops/lookup/kernels.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/lookup/kernels.cpp"
#include "hwy/foreach_target.h"

#include "hwy/highway.h"
#include "ops/elementwise/map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plimsoll::cpu::HWY_NAMESPACE {

template <class T>
HWY_INLINE void look_up(const EmbeddingShape& shape, TableRows rows, const std::int32_t* tokens, const T* table, float* out) {
  const std::int64_t width = shape.width;
  for_row_tiles(shape.batch * shape.tokens, width, [&](std::int64_t row, std::int64_t begin, std::int64_t end) HWY_ATTR {
    if (!rows.contains(tokens[row])) return;
    map_range(
        begin, end, [](Floats v) HWY_ATTR { return v; }, out + row * width, table + (tokens[row] - rows.begin) * width);
  });
}

void lookup(const EmbeddingShape& shape, TableRows rows, const std::int32_t* tokens, TableNumbers table, float* out) {
  if (table.narrow != nullptr) return look_up(shape, rows, tokens, table.narrow, out);
  look_up(shape, rows, tokens, table.exact, out);
}

}  // namespace plimsoll::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plimsoll::cpu {

HWY_EXPORT(lookup);

void lookup(const EmbeddingShape& shape, TableRows rows, const std::int32_t* tokens, TableNumbers table, float* out) {
  HWY_DYNAMIC_DISPATCH(lookup)(shape, rows, tokens, table, out);
}

void lookup(const EmbeddingShape& shape, const std::int32_t* tokens, const StoredMatrix& matrix, const std::byte* table,
            float* out) {
  const std::int64_t width = shape.width;
  for_row_tiles(shape.batch * shape.tokens, width, [&](std::int64_t row, std::int64_t begin, std::int64_t end) {
    read_elements(matrix, table, tokens[row] * width + begin, {out + row * width + begin, static_cast<std::size_t>(end - begin)});
  });
}

void gather_rows(std::int64_t rows, std::int64_t width, const float* x, const std::int32_t* index, float* out) {
  for_row_tiles(rows, width, [&](std::int64_t i, std::int64_t begin, std::int64_t end) {
    const float* row = x + index[i] * width;
    std::memcpy(out + i * width + begin, row + begin, static_cast<std::size_t>(end - begin) * sizeof(float));
  });
}

}  // namespace plimsoll::cpu
#endif  // HWY_ONCE
