// Layouts of the adapter's sums on a GPU, known without a GPU. Everything depends on the shape alone.
#pragma once

#include <algorithm>

#include "base/ceil_div.h"
#include "ops/adapter/adapter.h"
#include "ops/kernel.h"

namespace plimsoll {

// The gradient of magnitudes: a block has 32 columns and a group of rows, and writes fp64 sums into scratch.
struct CudaMagnitudeLayout {
  std::int64_t rows, width, strips, rows_of_group, groups;

  explicit CudaMagnitudeLayout(const ValueType& x) : rows(Rows(x).rows), width(Rows(x).width), strips(ceil_div(width, kColumns)) {
    rows_of_group = std::max(kLeastRows, ceil_div(rows, std::max(std::int64_t{1}, kBlocks / strips)));
    groups = ceil_div(rows, rows_of_group);
  }
  Bytes scratch() const { return Bytes{groups * width * 8}; }

 private:
  static constexpr std::int64_t kColumns = 32, kBlocks = 1056, kLeastRows = 32;
};

inline Bytes cuda_magnitude_scratch(const KernelRequest& request) { return CudaMagnitudeLayout(request.inputs[1]).scratch(); }

// Row norms: part p of a row sums the squares of columns p, p + kParts ... of W + scale B A, in this order. The parts are added
// in order at the end. So neither ranges of W nor its storage change a bit.
struct CudaRowNorms {
  static constexpr std::int64_t kParts = 32;

  std::int64_t rows, columns, rank;
  float scale;
  bool inputs_first;

  explicit CudaRowNorms(const KernelRequest& request)
      : rows(request.inputs[3].shape[0]), columns(request.inputs[2].shape[1]), rank(request.inputs[2].shape[0]) {
    const auto& attributes = request.attributes->as<ops::RowNormAttributes>();
    scale = static_cast<float>(attributes.scale);
    inputs_first = attributes.inputs_first;
  }
  Bytes scratch() const { return Bytes{kParts * rows * 8}; }
};

// A W in blocks is decoded tile by tile. Tiles are whole lines of W as it is stored; 32 lines begin at a multiple of 16 bytes in
// every format. If W comes in ranges of bytes, its codes are gathered until a tile is whole, and the parts behind them are kept.
struct CudaNormTiles {
  BlockMatrix matrix;
  std::int64_t lines;  // of a tile; the last may have less
  Bytes elements, codes, behind,
      all;  // scratch after the sums: decoded tile, and for ranges the codes of a tile and what follows

  CudaNormTiles(const BlockMatrix& stored, bool in_ranges)
      : matrix(stored),
        lines(std::min(matrix.rows, round_up(std::max(std::int64_t{1}, kElements / matrix.columns), 32))),
        elements(align_up(Bytes{lines * matrix.columns * 4}, kAlign)),
        codes(in_ranges ? align_up(code_bytes({matrix.format, lines, matrix.columns}), kAlign) : Bytes{}),
        behind(in_ranges ? stored_bytes(matrix) - code_bytes(matrix) + kAlign : Bytes{}),
        all(elements + codes + behind) {}

 private:
  static constexpr std::int64_t kElements = 1 << 22;
  static constexpr Bytes kAlign{16};
};

inline Bytes cuda_row_norms_scratch(const KernelRequest& request) {
  const auto& blocks = request.attributes->as<ops::RowNormAttributes>().blocks;
  return CudaRowNorms(request).scratch() + (blocks ? CudaNormTiles(*blocks, request.in_ranges).all : Bytes{});
}

// Tiles are decoded and added. A range lies in one tile or in two.
inline std::int64_t cuda_row_norms_launches(const KernelRequest& request) {
  const auto& blocks = request.attributes->as<ops::RowNormAttributes>().blocks;
  if (!blocks) return kUsualLaunches;
  if (request.in_ranges) return 2 * kUsualLaunches;
  return 2 * ceil_div(blocks->rows, CudaNormTiles(*blocks, false).lines) + 1;
}

}  // namespace plimsoll
