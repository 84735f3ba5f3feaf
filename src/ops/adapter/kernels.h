// Adapters on the CPU. Arrays are dense. Columns are independent, rows are added in order, and row norms are summed in parts that
// depend on the shape alone. Neither threads nor ranges change a bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "device/cpu/elements.h"
#include "device/cpu/stored_matrix.h"
#include "ops/attributes.h"

namespace plimsoll::cpu {

// out = x + y, n elements of one type. `out` may be x or y.
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
// `columns` are the outputs and inputs of W, independent of its storage.
struct RowNorms {
  std::int64_t rows, columns, rank;
  double scale = 1;
  bool inputs_first = false;  // W is stored as [columns, rows]
  StoredMatrix w = {};
  const float *a = nullptr, *b = nullptr;  // [rank, columns], [rows, rank]

  // One fp64 for each row, and A A^T. `in_parts`: also a tile of W and the parts after its codes, which add_part keeps.
  Bytes scratch(bool in_parts) const;
  void begin(std::byte* scratch) const;
  // Adds all of W.
  void add(const std::byte* stored, std::byte* scratch) const;
  // Adds the bytes of W from `at` on instead. Calls cover all bytes in order and in any cut, once for each pass. Whole tiles are
  // added without a copy.
  int passes() const { return w.blocks && scales_apart(w.blocks->format) ? 2 : 1; }
  static constexpr std::int64_t kTile = ops::kNormTile;
  void add_part(int pass, std::int64_t at, std::span<const std::byte> part, std::byte* scratch) const;
  void end(std::byte* scratch, float* norms) const;

 private:
  std::int64_t code_bytes() const;  // of all elements
  std::int64_t tile_bytes() const;
  std::int64_t behind_bytes() const;
  void add_elements(const BlockPieces& pieces, std::int64_t count, std::byte* scratch) const;
};

}  // namespace plimsoll::cpu
