// Scratch of Adafactor on a GPU, known without a GPU. One pass computes the sums of squares of a matrix: warps go down strips of
// columns within tiles of rows. A sum that is cut by the end of a range continues in the same order with the next range.
#pragma once

#include "ops/factored/factored.h"
#include "ops/update/cuda.h"

namespace plimsoll {

inline constexpr std::int64_t kCudaStrip = 128;  // columns

// A matrix whose rows are all axes but the last, or a vector as one row.
struct CudaFactoredShape {
  std::int64_t rows = 1, columns = 0;

  CudaFactoredShape(const ops::FactoredAttributes& a, const Shape& shape) {
    if (a.factored) rows = ops::rows_of(shape);
    columns = shape.elements() / rows;
  }
  std::int64_t elements() const { return rows * columns; }
};

// Scratch of update_variance for a matrix: the blend of variances, the sums of each strip of a row, and the sums of each column
// over tiles of rows. A strip that is cut at a multiple of kNormTile elements also has sums by lane.
struct CudaVarianceLayout {
  std::int64_t tile;  // rows of a tile: fewer for matrices of few rows, so that there are enough warps
  std::int64_t tiles, strips;
  Bytes row_sums, cuts, column_sums, all;  // offsets

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

// The shape of the gradient.
inline CudaFactoredShape cuda_factored_shape(const KernelRequest& request, const ops::FactoredOperands& at) {
  return {factored_of(request), request.inputs[at.gradient].shape};
}

inline Bytes cuda_update_variance_scratch(const KernelRequest& request) {
  const ops::FactoredAttributes& a = factored_of(request);
  if (!a.factored) return {};
  return CudaVarianceLayout(cuda_factored_shape(request, ops::FactoredOperands::of_variance(a))).all;
}

// The reciprocal of the mean of a matrix's rows comes first.
inline constexpr Bytes kCudaMean{256};

inline Bytes cuda_update_size_scratch(const KernelRequest& request) {
  const ops::FactoredAttributes& a = factored_of(request);
  const ValueType& parameter = request.inputs[ops::FactoredOperands::of_size(a).parameter];
  const Bytes sums = cuda_tile_sums(parameter.shape.elements(), kCudaTile, 2);
  return a.factored ? kCudaMean + sums : sums;
}
inline Bytes cuda_adafactor_scratch(const KernelRequest& request) { return factored_of(request).factored ? kCudaMean : Bytes{}; }

}  // namespace plimsoll
