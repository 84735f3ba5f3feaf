// Sums over rows on a GPU: in groups of rows, enough to fill a GPU, which write partial sums into scratch. The groups depend on
// the shape alone.
#pragma once

#include <algorithm>

#include "base/ceil_div.h"
#include "ops/kernel.h"
#include "ops/reduce/reduce.h"

namespace plimsoll {

// A block has a strip of columns and a group of rows; its warps take rows in turn.
struct CudaSumRowsLayout {
  std::int64_t rows, width;
  int pack;             // elements per lane and load
  std::int64_t strips;  // strips of 32 packs
  std::int64_t rows_of_group, groups;

  explicit CudaSumRowsLayout(const ValueType& x) : rows(Rows(x).rows), width(Rows(x).width) {
    const auto whole = static_cast<int>(16 / size_of(x.dtype));
    pack = width % whole == 0 ? whole : 1;
    strips = ceil_div(width, std::int64_t{32} * pack);
    const std::int64_t most = std::max(std::int64_t{1}, kBlocks / strips);
    rows_of_group = std::max(kLeastRows, ceil_div(rows, most));
    groups = ceil_div(rows, rows_of_group);
  }
  Bytes scratch() const { return Bytes{groups * width * 4}; }

 private:
  static constexpr std::int64_t kBlocks = 528, kLeastRows = 32;
};

inline Bytes cuda_sum_rows_scratch(const KernelRequest& request) { return CudaSumRowsLayout(request.inputs[0]).scratch(); }

// Each block counts its zeros and its subnormal numbers.
struct CudaCounts {
  std::int64_t zeros, subnormals;
};
constexpr std::int64_t cuda_counting_blocks(std::int64_t n) {
  constexpr std::int64_t kElementsOfBlock = 256 * 8 * 4, kMost = 1056;
  return std::clamp(ceil_div(n, kElementsOfBlock), std::int64_t{1}, kMost);
}
inline Bytes cuda_count_small_scratch(const KernelRequest& request) {
  return Bytes{cuda_counting_blocks(request.inputs[0].shape.elements()) * static_cast<std::int64_t>(sizeof(CudaCounts))};
}

}  // namespace plimsoll
