// The dot product of each row of attention's output with its gradient: the common term of the gradients of its scores.
#pragma once

#include "ops/attention/call.cuh"

namespace plimsoll::cuda {

inline constexpr int kDotThreads = 256;

// [tokens of all samples][heads][head_size] -> [samples][heads][tokens]. `lanes`, a power of two, share a row: each takes eight
// consecutive elements if rows are multiples of eight.
template <bool kEights>
__global__ void __launch_bounds__(kDotThreads)
    row_dots_kernel(AttentionExtents e, int lanes, Elements out, Elements d_out, float* dots) {
  const std::int64_t rows = static_cast<std::int64_t>(e.all_heads()) * e.tokens, together = threads_of_grid() / lanes;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  for (std::int64_t first = 0; first < rows; first += together) {  // all threads take part, because they exchange numbers
    const std::int64_t row = first + thread_of_grid() / lanes, begin = row * e.head_size;
    float sum = 0;
    if constexpr (kEights) {
      for (int i = 8 * lane; row < rows && i < e.head_size; i += 8 * lanes) {
        const Pack<float, 8> a = out.eight_at(begin + i), b = d_out.eight_at(begin + i);
#pragma unroll
        for (int k = 0; k < 8; ++k) sum += a.at[k] * b.at[k];
      }
    } else {
      for (int i = lane; row < rows && i < e.head_size; i += lanes) sum += out.at(begin + i) * d_out.at(begin + i);
    }
    for (int mask = lanes / 2; mask > 0; mask /= 2) sum += __shfl_xor_sync(kAllLanes, sum, mask);
    if (lane != 0 || row >= rows) continue;
    const std::int64_t token = row / e.heads, head = row % e.heads, sample = token / e.tokens;
    dots[(sample * e.heads + head) * e.tokens + token % e.tokens] = sum;
  }
}

inline void row_dots(const AttentionExtents& e, const Elements& out, const Elements& d_out, float* dots, void* stream) {
  const bool eights = e.head_size % 8 == 0;
  const int units = eights ? e.head_size / 8 : e.head_size;
  int lanes = 1;
  while (lanes < units && lanes < kWarp) lanes *= 2;
  const Grid grid = grid_over(static_cast<std::int64_t>(e.all_heads()) * e.tokens, kDotThreads, kDotThreads / lanes);
  launch(eights ? row_dots_kernel<true> : row_dots_kernel<false>, grid, stream, e, lanes, out, d_out, dots);
}

}  // namespace plimsoll::cuda
