// Adapters on the CPU. Arrays are dense. Columns are independent, rows are added in their order, and row norms in parts that the
// shape fixes: neither the number of threads nor ranges change a bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "device/cpu/elements.h"
#include "ops/attributes.h"

namespace plimsoll::cpu {

// out = x + y, n elements of one type. out may be either.
void sum_paths(std::int64_t n, ConstElements x, ConstElements y, Elements out);

struct MagnitudeRows {
  std::int64_t rows, width;
  const float *norms, *bias;  // bias: null for none
};
// y = (x - bias) m / norms + bias; y may be x and is of its type.
void magnitude(const MagnitudeRows& shape, ConstElements x, const float* m, Elements y);
// dm [width] = or += the sum over rows of dy (x - bias) / norms, in fp64.
void magnitude_backward(const MagnitudeRows& shape, ConstElements dy, ConstElements x, bool accumulate, float* dm);

// The norms of the rows of W + scale B A, from |w|^2 + 2 scale b (A w) + scale^2 b (A A^T) b^T, with sums in fp64. `rows` and
// `columns` are those of W as [outputs, inputs], however it is stored.
struct RowNorms {
  std::int64_t rows, columns, rank;
  double scale = 1;
  bool inputs_first = false;  // W is stored as [columns, rows]
  const float *a, *b;         // [rank, columns], [rows, rank]

  // One fp64 for each row, and A A^T.
  static Bytes scratch(std::int64_t rows, std::int64_t rank) { return Bytes{8 * (rows + rank * rank)}; }
  void begin(std::byte* scratch) const;
  // Elements [first, first + count) of W as it is stored: `first` is a multiple of the tile, and so is `count` but at the end.
  static constexpr std::int64_t kTile = ops::kNormTile;
  void add(ConstElements w, std::int64_t first, std::int64_t count, std::byte* scratch) const;
  void end(std::byte* scratch, float* norms) const;
};

}  // namespace plimsoll::cpu
