#include "device/cpu/strip_gemm.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/ceil_div.h"
#include "device/cpu/library_gemm.h"

namespace plimsoll::cpu {
namespace {

// Even strips of whole groups of columns.
std::int64_t strip_columns(const GemmShape& shape) {
  const std::int64_t all = std::max<std::int64_t>(1, kStripBytes / (shape.k * size_of(shape.operands)));
  if (shape.n <= all) return shape.n;
  const std::int64_t group = all < 64 ? 1 : 64, most = all / group * group;
  return round_up(ceil_div(shape.n, ceil_div(shape.n, most)), group);
}

GemmShape strip_shape(const GemmShape& shape, bool last) {
  const std::int64_t columns = strip_columns(shape), rest = shape.n % columns;
  GemmShape strip = shape;
  strip.n = last && rest > 0 ? rest : columns;
  strip.stride_c = strip.n == shape.n ? 0 : shape.n;
  return strip;
}

Bytes strip_bytes(const GemmShape& shape) {
  return align_up(Bytes{shape.k * strip_columns(shape) * size_of(shape.operands)}, kCacheLine);
}

GemmPlan strips_plan(const GemmShape& shape, const StoredMatrix& matrix, const GemmPlan& full, const GemmPlan& last) {
  return {.implementation = fmt::format("strips of {} {}", name(matrix), full.implementation),
          .scratch = strip_bytes(shape) + align_up(std::max(full.scratch, last.scratch), kCacheLine),
          .primitives = strip_shape(shape, false) == strip_shape(shape, true) ? 1 : 2};
}

}  // namespace

bool library_takes_strips(const GemmShape& shape, int threads) {
  return LibraryGemm::plan_of(strip_shape(shape, false), threads) && LibraryGemm::plan_of(strip_shape(shape, true), threads);
}

GemmPlan StripGemm::plan_of(const GemmShape& shape, const StoredMatrix& matrix, int threads) {
  return strips_plan(shape, matrix, plan_gemm(strip_shape(shape, false), threads), plan_gemm(strip_shape(shape, true), threads));
}

StripGemm::StripGemm(const GemmShape& shape, const StoredMatrix& matrix, int threads)
    : shape_(shape),
      matrix_(matrix),
      full_(strip_shape(shape, false), threads),
      last_(strip_shape(shape, true), threads),
      plan_(strips_plan(shape, matrix, full_.plan(), last_.plan())) {}

void StripGemm::run(const void* a, const std::byte* b, const float* bias, void* c, std::byte* scratch) const {
  std::byte* const product_scratch = scratch + strip_bytes(shape_).n;
  const std::int64_t columns = strip_columns(shape_);
  for (std::int64_t column = 0; column < shape_.n; column += columns) {
    const std::int64_t count = std::min(columns, shape_.n - column);
    const Part part =
        shape_.transpose_b ? Part{column, count, 0, shape_.k, shape_.k} : Part{0, shape_.k, column, count, shape_.n};
    read_part(matrix_, b, part, shape_.operands, scratch);
    const Gemm& gemm = count == columns ? full_ : last_;
    gemm.run(a, scratch, bias == nullptr ? nullptr : bias + column, static_cast<std::byte*>(c) + column * size_of(shape_.result),
             product_scratch);
  }
}

}  // namespace plimsoll::cpu
