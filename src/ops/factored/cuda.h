// Scratch of Adafactor on a GPU, known without asking one. One pass takes the sums of squares of a matrix: warps walk down strips
// of columns, within tiles of rows. A sum that a range's end cuts goes on, in the same order, with the next range.
#pragma once

#include "ops/factored/factored.h"
#include "ops/update/cuda.h"

namespace plimsoll {

inline constexpr std::int64_t kCudaStrip = 128;  // columns

// A matrix, of all axes but the last as its rows, or a vector as one row.
struct CudaFactoredShape {
  std::int64_t rows = 1, columns = 0;

  CudaFactoredShape(const ops::FactoredAttributes& a, const Shape& shape) {
    if (a.factored) rows = ops::rows_of(shape);
    columns = shape.elements() / rows;
  }
  std::int64_t elements() const { return rows * columns; }
};

// Scratch of update_variance of a matrix: how far variances move, the sums of each strip of a row, those of the lanes of a strip
// that is cut at a multiple of kNormTile elements, and the sums of each column over tiles of rows.
struct CudaVarianceLayout {
  std::int64_t tile;  // rows: fewer where there are few, so that there are enough warps
  std::int64_t tiles, strips;
  Bytes row_sums, cuts, column_sums, all;  // where they begin

  explicit CudaVarianceLayout(const CudaFactoredShape& shape)
      : tile(shape.elements() < kMany ? 16 : 64),
        tiles(ceil_div(shape.rows, tile)),
        strips(ceil_div(shape.columns, kCudaStrip)),
        row_sums(kAlign),
        cuts(row_sums + floats(shape.rows * strips)),
        column_sums(cuts + floats(shape.elements() / ops::kNormTile * kLanes)),
        all(column_sums + floats(tiles * shape.columns)) {}

 private:
  static constexpr std::int64_t kMany = 1 << 24, kLanes = 32;
  static constexpr Bytes kAlign{256};
  static Bytes floats(std::int64_t count) { return align_up(Bytes{count * static_cast<std::int64_t>(sizeof(float))}, kAlign); }
};

inline const ops::FactoredAttributes& factored_of(const KernelRequest& request) {
  return request.attributes->as<ops::FactoredAttributes>();
}

// That of the gradient.
inline CudaFactoredShape cuda_factored_shape(const KernelRequest& request, const ops::FactoredOperands& at) {
  return {factored_of(request), request.inputs[at.gradient].shape};
}

inline Bytes cuda_update_variance_scratch(const KernelRequest& request) {
  const ops::FactoredAttributes& a = factored_of(request);
  if (!a.factored) return {};
  return CudaVarianceLayout(cuda_factored_shape(request, ops::FactoredOperands::of_variance(a))).all;
}

// One over the mean of the rows of a matrix comes first.
inline constexpr Bytes kCudaMean{256};

inline Bytes cuda_update_size_scratch(const KernelRequest& request) {
  const ops::FactoredAttributes& a = factored_of(request);
  const ValueType& parameter = request.inputs[ops::FactoredOperands::of_size(a).parameter];
  const Bytes sums = cuda_tile_sums(parameter.shape.elements(), kCudaTile, 2);
  return a.factored ? kCudaMean + sums : sums;
}
inline Bytes cuda_adafactor_scratch(const KernelRequest& request) { return factored_of(request).factored ? kCudaMean : Bytes{}; }

}  // namespace plimsoll
