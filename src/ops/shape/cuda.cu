#include "ops/cuda_kernel.h"
#include "ops/elementwise/map.cuh"
#include "ops/shape/shape_ops.h"

namespace plimsoll {
namespace cuda {
namespace {

// A tile is read along rows and written along columns, through shared memory whose rows are one element longer. Neither direction
// then has bank conflicts.
constexpr int kTile = 32, kTileRows = 8;

__global__ void __launch_bounds__(kTile* kTileRows)
    transpose_kernel(std::int64_t rows, std::int64_t columns, std::int64_t tiles, const float* x, float* y) {
  __shared__ float tile[kTile][kTile + 1];
  const int lane = static_cast<int>(lane_of_warp()), line = static_cast<int>(warp_of_block());
  const std::int64_t across = (columns + kTile - 1) / kTile, down = (rows + kTile - 1) / kTile;
  for (std::int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const std::int64_t matrix = t / (across * down) * rows * columns;
    const std::int64_t row = t / across % down * kTile, column = t % across * kTile;
    for (int i = line; i < kTile; i += kTileRows) {
      if (row + i < rows && column + lane < columns) tile[i][lane] = x[matrix + (row + i) * columns + column + lane];
    }
    __syncthreads();
    for (int i = line; i < kTile; i += kTileRows) {
      if (column + i < columns && row + lane < rows) y[matrix + (column + i) * rows + row + lane] = tile[lane][i];
    }
    __syncthreads();
  }
}

}  // namespace
}  // namespace cuda

namespace {

// Plans have no instruction for a view; tests run it as a copy.
std::unique_ptr<Kernel> bind_reshape(const KernelRequest& request) {
  const std::int64_t words = dense_bytes(request.outputs[0].shape, request.outputs[0].dtype) / 4;
  return make_kernel([words](const KernelCall& call) {
    if (call.inputs[0] != call.outputs[0]) cuda::map(words, cuda::Same{}, call.stream, call.out(0), call.in(0));
  });
}

std::unique_ptr<Kernel> bind_transpose(const KernelRequest& request) {
  const Shape& x = request.inputs[0].shape;
  const std::int64_t rows = x.last(1), columns = x.last(), matrices = x.elements() / (rows * columns);
  const auto cover = [](std::int64_t n) { return (n + cuda::kTile - 1) / cuda::kTile; };
  const std::int64_t tiles = matrices * cover(rows) * cover(columns);
  return make_kernel([rows, columns, tiles](const KernelCall& call) {
    cuda::launch(cuda::transpose_kernel, cuda::grid_over(tiles, cuda::kTile * cuda::kTileRows, 1), call.stream, rows, columns,
                 tiles, call.in(0), call.out(0));
  });
}

}  // namespace

CudaKernels shape_cuda_kernels() { return {{&ops::kReshape, bind_reshape}, {&ops::kTranspose, bind_transpose}}; }

}  // namespace plimsoll
