// y[row, column] = f(x[row, column]) on a GPU, with a function f for each column: fp32 arithmetic on values from and to memory of
// fp32, bf16 or fp16; y may be x.
#pragma once

#include "ops/elementwise/map.cuh"

namespace plimsoll::cuda {

inline constexpr int kColumnMapWarps = 8;

// A thread has the same pack of columns in all of its rows. The warps of all blocks with these columns take rows in turn.
template <int kElements, class F, class T>
__global__ void __launch_bounds__(kColumnMapWarps* kWarp)
    map_columns_kernel(std::int64_t rows, std::int64_t width, F of_column, const T* x, T* y) {
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.x) * kWarp + lane_of_warp()) * kElements;
  if (column >= width) return;
  decltype(of_column(column)) f[kElements];
#pragma unroll
  for (int e = 0; e < kElements; ++e) f[e] = of_column(column + e);
  const std::int64_t step = static_cast<std::int64_t>(gridDim.y) * kColumnMapWarps;
#pragma unroll 4
  for (std::int64_t row = blockIdx.y * kColumnMapWarps + warp_of_block(); row < rows; row += step) {
    Pack<T, kElements> pack = load_pack<kElements>(x + row * width + column);
#pragma unroll
    for (int e = 0; e < kElements; ++e) pack.at[e] = narrow<T>(f[e](widen(pack.at[e])));
    store_pack(pack, y + row * width + column);
  }
}

// F: a device functor of a column, whose result is a functor of a float.
template <class F, class T>
void map_columns(std::int64_t rows, std::int64_t width, F of_column, void* stream, const T* x, T* y) {
  constexpr int kElements = 16 / sizeof(T);
  constexpr std::int64_t kBlocks = 1056;  // enough to fill a GPU of 132 multiprocessors
  const auto run = [&](auto kernel, std::int64_t elements) {
    const std::int64_t strips = (width + kWarp * elements - 1) / (kWarp * elements);
    const std::int64_t groups = (rows + kColumnMapWarps - 1) / kColumnMapWarps, most = (kBlocks + strips - 1) / strips;
    launch(kernel,
           {{static_cast<unsigned>(strips), static_cast<unsigned>(groups < most ? groups : most)}, {kColumnMapWarps * kWarp}},
           stream, rows, width, of_column, x, y);
  };
  if (width % kElements == 0) return run(map_columns_kernel<kElements, F, T>, kElements);
  run(map_columns_kernel<1, F, T>, 1);
}

}  // namespace plimsoll::cuda
