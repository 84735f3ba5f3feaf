// The backward pass of a norm on a GPU: the gradient of x, and the sums over rows that are the gradients of the weights.
#pragma once

#include "ops/norm/cuda.h"
#include "ops/reduce/columns.cuh"
#include "ops/reduce/row.cuh"

namespace plimsoll::cuda {

// The gradients that a kernel makes.
template <bool kOfX, bool kOfGamma, bool kOfBeta>
struct Makes {
  static constexpr bool kX = kOfX, kGamma = kOfGamma, kBeta = kOfBeta;
  static constexpr int kSums = int{kOfGamma} + int{kOfBeta};
};

// Sums over a row: of dy gamma, and of dy gamma z, with z the normalised x.
struct RowSums {
  float gradient, projection;
};

// N is the norm:
//   Dy, X                        types of dy, and of x and dx
//   kCentred                     dx needs the sum of dy gamma
//   Row row(r)                   the numbers that normalise row r; Row{} for no row
//   z(x, row)                    x normalised
//   in_y(z)                      z as y has it
//   slope(dy gamma, z, row, means)  dx, from the means over the row
template <class N>
struct NormBackward {
  std::int64_t rows, width;
  const typename N::Dy* dy;
  const typename N::X* x;
  const float* gamma;  // read for dx
  typename N::X* dx;   // may be x or dy
  float* partials;     // [groups, sums, width]
  N norm;
};

// The sum over the threads of a team, in all of them. All teams of the block call it together. `turn` alternates between two
// places, so that one barrier is enough.
template <bool kCentred>
__device__ __forceinline__ RowSums sum_of_team(RowSums mine, int turn, int team_warps) {
  __shared__ RowSums of_warps[2][CudaNormLayout::kMostThreads / kWarp];
  if constexpr (kCentred) mine.gradient = warp_sum(mine.gradient);
  mine.projection = warp_sum(mine.projection);
  RowSums* const places = of_warps[turn % 2];
  if (lane_of_warp() == 0) places[warp_of_block()] = mine;
  __syncthreads();
  const int first = static_cast<int>(warp_of_block()) / team_warps * team_warps;
  RowSums all = places[first];
#pragma unroll 4
  for (int i = 1; i < team_warps; ++i) {
    all.gradient += places[first + i].gradient;
    all.projection += places[first + i].projection;
  }
  return all;
}

// A block processes a row for each of its teams at a time. A thread has the same columns in all of its rows, and their sums in
// registers; the sums of the teams are added in order at the end.
template <int kPacks, class N, class M>
__global__ void __launch_bounds__(CudaNormLayout::most_threads(kPacks), kPacks <= 2 ? 2 : 1)
    norm_backward_kernel(NormBackward<N> n, int team_threads, int teams) {
  using Floats = Pack<float, 4>;
  const int team = static_cast<int>(threadIdx.x) / team_threads, thread = static_cast<int>(threadIdx.x) % team_threads;
  const int width = static_cast<int>(n.width);
  const float inverse = 1.0f / static_cast<float>(width);
  const auto column_of = [&](int p) { return (p * team_threads + thread) * 4; };
  const Floats zeros{};
  Floats gamma[kPacks], dgamma[kPacks], dbeta[kPacks];
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    gamma[p] = zeros;
    if constexpr (M::kX) gamma[p] = column_of(p) < width ? load_pack(n.gamma + column_of(p)) : zeros;
    dgamma[p] = dbeta[p] = zeros;
  }
  const int rows = static_cast<int>(n.rows), step = static_cast<int>(gridDim.x) * teams;
  int turn = 0;
  for (int base = static_cast<int>(blockIdx.x) * teams; base < rows; base += step, ++turn) {
    const int row = base + team;
    const bool here = row < rows;
    const std::int64_t begin = row * n.width;
    Floats dy[kPacks], z[kPacks];
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const bool loads = here && column_of(p) < width;
      dy[p] = loads ? load_floats<4>(n.dy + begin + column_of(p)) : zeros;
      z[p] = loads ? load_floats<4>(n.x + begin + column_of(p)) : zeros;
    }
    typename N::Row normal{};
    if (here) normal = n.norm.row(row);
    RowSums sums{0, 0};
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        z[p].at[e] = n.norm.z(z[p].at[e], normal);
        if constexpr (M::kX) {
          const float scaled = dy[p].at[e] * gamma[p].at[e];
          sums.gradient += scaled;
          sums.projection += scaled * z[p].at[e];
        }
        if constexpr (M::kGamma) dgamma[p].at[e] += dy[p].at[e] * n.norm.in_y(z[p].at[e]);
        if constexpr (M::kBeta) dbeta[p].at[e] += dy[p].at[e];
      }
    }
    if constexpr (!M::kX) continue;
    sums = sum_of_team<N::kCentred>(sums, turn, team_threads / kWarp);
    const RowSums means{sums.gradient * inverse, sums.projection * inverse};
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (!here || column_of(p) >= width) continue;
#pragma unroll
      for (int e = 0; e < 4; ++e) dy[p].at[e] = n.norm.slope(dy[p].at[e] * gamma[p].at[e], z[p].at[e], normal, means);
      store_floats(dy[p], n.dx + begin + column_of(p));
    }
  }
  if constexpr (M::kSums == 0) return;
  float* const partials = n.partials + static_cast<std::int64_t>(blockIdx.x) * M::kSums * width;
  float* const of_teams = teams == 1 ? partials : shared_memory<float>();
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    if (column_of(p) >= width) continue;
    if constexpr (M::kGamma) store_pack(dgamma[p], of_teams + team * M::kSums * width + column_of(p));
    if constexpr (M::kBeta) store_pack(dbeta[p], of_teams + (team * M::kSums + M::kSums - 1) * width + column_of(p));
  }
  if (teams == 1) return;
  __syncthreads();
  for (int column = static_cast<int>(threadIdx.x); column < M::kSums * width; column += static_cast<int>(blockDim.x)) {
    float sum = of_teams[column];
    for (int i = 1; i < teams; ++i) sum += of_teams[i * M::kSums * width + column];
    partials[column] = sum;
  }
}

// For rows that are not held in registers: dgamma and dbeta come first, because dx may overwrite dy and x. A block has 32
// columns. Rows go in turn to the warps of all blocks with these columns.
inline constexpr int kNormWarps = 8;

template <class N, class M>
__global__ void __launch_bounds__(kNormWarps* kWarp) norm_columns_kernel(NormBackward<N> n) {
  __shared__ RowSums of_warps[kNormWarps][kWarp];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kWarp + lane_of_warp();
  RowSums sums{0, 0};  // of dbeta and of dgamma
  const std::int64_t step = static_cast<std::int64_t>(gridDim.y) * kNormWarps;
  for (std::int64_t row = blockIdx.y * kNormWarps + warp_of_block(); column < n.width && row < n.rows; row += step) {
    const float dy = widen(n.dy[row * n.width + column]);
    if constexpr (M::kBeta) sums.gradient += dy;
    if constexpr (M::kGamma) {
      sums.projection += dy * n.norm.in_y(n.norm.z(widen(n.x[row * n.width + column]), n.norm.row(row)));
    }
  }
  of_warps[warp_of_block()][lane_of_warp()] = sums;
  __syncthreads();
  if (warp_of_block() != 0 || column >= n.width) return;
  for (int w = 1; w < kNormWarps; ++w) {
    sums.gradient += of_warps[w][lane_of_warp()].gradient;
    sums.projection += of_warps[w][lane_of_warp()].projection;
  }
  float* const partials = n.partials + blockIdx.y * M::kSums * n.width;
  if constexpr (M::kGamma) partials[column] = sums.projection;
  if constexpr (M::kBeta) partials[(M::kSums - 1) * n.width + column] = sums.gradient;
}

template <class Row, class N>
__global__ void __launch_bounds__(Row::kBlock) norm_dx_kernel(NormBackward<N> n) {
  const float inverse = 1.0f / static_cast<float>(n.width);
  for_rows<Row>(n.rows, [&](std::int64_t row) {
    const typename N::Dy* const dy = n.dy + row * n.width;
    const typename N::X* const x = n.x + row * n.width;
    const typename N::Row normal = n.norm.row(row);
    RowSums sums{0, 0};
    Row::for_each(n.width, [&](int, std::int64_t column) {
      const float scaled = widen(dy[column]) * n.gamma[column];
      sums.gradient += scaled;
      sums.projection += scaled * n.norm.z(widen(x[column]), normal);
    });
    RowSums means{0, sum_of_threads<Row>(sums.projection) * inverse};
    if constexpr (N::kCentred) means.gradient = sum_of_threads<Row>(sums.gradient) * inverse;
    Row::for_each(n.width, [&](int, std::int64_t column) {
      const float slope = n.norm.slope(widen(dy[column]) * n.gamma[column], n.norm.z(widen(x[column]), normal), normal, means);
      n.dx[row * n.width + column] = narrow<typename N::X>(slope);
    });
  });
}

// The sums of groups, and dx, of rows that are not held.
template <class N, class M>
void run_passed_backward(const NormBackward<N>& n, const CudaNormLayout& layout, void* stream) {
  const auto strips = static_cast<unsigned>(ceil_div(n.width, CudaNormLayout::kColumns));
  const Grid grid{{strips, static_cast<unsigned>(layout.groups)}, {static_cast<unsigned>(kNormWarps * kWarp)}};
  if constexpr (M::kSums > 0) launch(norm_columns_kernel<N, M>, grid, stream, n);
  if constexpr (!M::kX) return;
  if (n.width <= 1024) return launch(norm_dx_kernel<PassedRow<1>, N>, grid_of_rows<PassedRow<1>>(n.rows), stream, n);
  launch(norm_dx_kernel<PassedRow<16>, N>, grid_of_rows<PassedRow<16>>(n.rows), stream, n);
}

// The same of any rows. allow_backward_shared comes before.
template <class N, class M>
void run_backward(const NormBackward<N>& n, const CudaNormLayout& layout, void* stream) {
  if (layout.packs == 0) return run_passed_backward<N, M>(n, layout, stream);
  const auto kernel = layout.packs == 1   ? norm_backward_kernel<1, N, M>
                      : layout.packs == 2 ? norm_backward_kernel<2, N, M>
                                          : norm_backward_kernel<CudaNormLayout::kMostPacks, N, M>;
  const auto shared_bytes = static_cast<std::size_t>(layout.shared().n);
  const auto threads = static_cast<unsigned>(layout.team * layout.teams);
  launch(kernel, {{static_cast<unsigned>(layout.groups)}, {threads}, shared_bytes}, stream, n, layout.team, layout.teams);
}

template <class N, class M>
void allow_backward_shared() {
  allow_shared(norm_backward_kernel<CudaNormLayout::kMostPacks, N, M>, CudaNormLayout::kMostShared);
}

}  // namespace plimsoll::cuda
