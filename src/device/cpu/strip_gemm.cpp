#include "device/cpu/strip_gemm.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "base/ceil_div.h"
#include "device/cpu/library_gemm.h"
#include "device/cpu/parallel.h"

namespace plimsoll::cpu {
namespace {

// Even strips of whole groups of columns.
std::int64_t strip_columns(const GemmShape& shape) {
  const std::int64_t all = std::max<std::int64_t>(1, kStripBytes / (shape.k * size_of(shape.operands)));
  if (shape.n <= all) return shape.n;
  const std::int64_t group = all < 64 ? 1 : 64, most = all / group * group;
  return round_up(ceil_div(shape.n, ceil_div(shape.n, most)), group);
}

// The library's matrices are dense, so it writes its part of C into scratch first. If one strip is all of B, it writes C itself.
bool in_one_strip(const GemmShape& shape) { return strip_columns(shape) == shape.n; }

// The rows of a band; bands are even.
std::int64_t band_rows(const GemmShape& shape) {
  if (in_one_strip(shape)) return shape.m;
  const std::int64_t all = std::max<std::int64_t>(1, kBandBytes / (strip_columns(shape) * size_of(shape.result)));
  return ceil_div(shape.m, ceil_div(shape.m, all));
}

// The shape of the product of a strip and a band, each either the last of its kind or not.
GemmShape part_shape(const GemmShape& shape, bool last_strip, bool last_band) {
  const std::int64_t columns = strip_columns(shape), rows = band_rows(shape);
  const std::int64_t rest_columns = shape.n % columns, rest_rows = shape.m % rows;
  GemmShape part = shape;
  part.n = last_strip && rest_columns > 0 ? rest_columns : columns;
  part.m = last_band && rest_rows > 0 ? rest_rows : rows;
  return part;
}

constexpr std::array<std::array<bool, 2>, 4> kParts{{{false, false}, {false, true}, {true, false}, {true, true}}};

Bytes strip_bytes(const GemmShape& shape) {
  return align_up(Bytes{shape.k * strip_columns(shape) * size_of(shape.operands)}, kCacheLine);
}

Bytes band_bytes(const GemmShape& shape) {
  if (in_one_strip(shape)) return {};
  return align_up(Bytes{band_rows(shape) * strip_columns(shape) * size_of(shape.result)}, kCacheLine);
}

// The plan that serves all parts.
template <class PlanOf>
GemmPlan strips_plan(const GemmShape& shape, const StoredMatrix& matrix, PlanOf plan_of) {
  GemmPlan plan;
  std::vector<GemmShape> known;
  for (const auto [strip, band] : kParts) {
    const GemmPlan part = plan_of(strip, band);
    if (plan.implementation.empty()) plan.implementation = fmt::format("strips of {} {}", name(matrix), part.implementation);
    plan.scratch = std::max(plan.scratch, align_up(part.scratch, kCacheLine));
    const GemmShape one = part_shape(shape, strip, band);
    if (std::ranges::find(known, one) == known.end()) known.push_back(one);
  }
  plan.scratch += strip_bytes(shape) + band_bytes(shape);
  plan.primitives = static_cast<int>(known.size());
  return plan;
}

}  // namespace

bool library_takes_strips(const GemmShape& shape, int threads) {
  return std::ranges::all_of(
      kParts, [&](const auto& part) { return LibraryGemm::plan_of(part_shape(shape, part[0], part[1]), threads).has_value(); });
}

GemmPlan StripGemm::plan_of(const GemmShape& shape, const StoredMatrix& matrix, int threads) {
  return strips_plan(shape, matrix, [&](bool strip, bool band) { return plan_gemm(part_shape(shape, strip, band), threads); });
}

StripGemm::StripGemm(const GemmShape& shape, const StoredMatrix& matrix, int threads) : shape_(shape), matrix_(matrix) {
  for (const auto [strip, band] : kParts) {
    const GemmShape part = part_shape(shape, strip, band);
    const auto same = std::ranges::find(shapes_, part);
    of_part_[strip][band] = static_cast<std::size_t>(same - shapes_.begin());
    if (same != shapes_.end()) continue;
    shapes_.push_back(part);
    gemms_.emplace_back(part, threads);
  }
  plan_ = strips_plan(shape, matrix, [&](bool strip, bool band) { return gemms_[of_part_[strip][band]].plan(); });
}

void StripGemm::run(const void* a, const std::byte* b, const float* bias, void* c, std::byte* scratch) const {
  std::byte *const strip = scratch, *const band = strip + strip_bytes(shape_).n, *const rest = band + band_bytes(shape_).n;
  const std::int64_t columns = strip_columns(shape_), rows = band_rows(shape_), size = size_of(shape_.result);
  for (std::int64_t column = 0; column < shape_.n; column += columns) {
    const std::int64_t count = std::min(columns, shape_.n - column);
    const Part part =
        shape_.transpose_b ? Part{column, count, 0, shape_.k, shape_.k} : Part{0, shape_.k, column, count, shape_.n};
    read_part(matrix_, b, part, shape_.operands, strip);
    for (std::int64_t row = 0; row < shape_.m; row += rows) {
      const std::int64_t height = std::min(rows, shape_.m - row);
      const Gemm& gemm = gemms_[of_part_[count < columns][height < rows]];
      std::byte* const to = static_cast<std::byte*>(c) + (row * shape_.n + column) * size;
      gemm.run(static_cast<const std::byte*>(a) + row * shape_.k * size_of(shape_.operands), strip,
               bias == nullptr ? nullptr : bias + column, in_one_strip(shape_) ? to : band, rest);
      if (in_one_strip(shape_)) continue;
      parallel_for(height, [&](std::int64_t i) {
        std::memcpy(to + i * shape_.n * size, band + i * count * size, static_cast<std::size_t>(count * size));
      });
    }
  }
}

}  // namespace plimsoll::cpu
