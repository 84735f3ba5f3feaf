#include "ops/norm/cuda.h"

#include "ops/cuda_kernel.h"
#include "ops/reduce/columns.cuh"
#include "ops/reduce/row.cuh"

namespace plimsoll {
namespace cuda {
namespace {

struct LayerNorm {
  std::int64_t rows, width;
  float epsilon;
  const float* x;
  float *mean, *rstd;
};

// The variance is the mean of squared differences from the mean.
template <class Row, class T>
__global__ void __launch_bounds__(Row::kBlock)
    layer_norm_kernel(LayerNorm n, const float* __restrict__ gammas, const float* __restrict__ betas, T* y) {
  constexpr int kElements = Row::kElements;
  const float inverse = 1.0f / static_cast<float>(n.width);
  for_rows<Row>(n.rows, [&](std::int64_t row) {
    const Row x(n.x + row * n.width, n.width);
    const float mean = sum_over(n.width, x, [](float e) { return e; }) * inverse;
    const float variance = sum_over(n.width, x, [=](float e) { return (e - mean) * (e - mean); }) * inverse;
    const float rstd = 1.0f / sqrtf(variance + n.epsilon);
    Row::for_each(n.width, [&](int p, std::int64_t column) {
      const Pack<float, kElements> of_x = x.at(p, column), gamma = load_pack<kElements>(gammas + column),
                                   beta = load_pack<kElements>(betas + column);
      Pack<T, kElements> of_y;
#pragma unroll
      for (int e = 0; e < kElements; ++e) of_y.at[e] = narrow<T>((of_x.at[e] - mean) * rstd * gamma.at[e] + beta.at[e]);
      store_pack(of_y, y + row * n.width + column);
    });
    if (threadIdx.x % Row::kThreads == 0) n.mean[row] = mean, n.rstd[row] = rstd;
  });
}

struct LayerNormBackward {
  std::int64_t rows, width;
  const float *dy, *x, *mean, *rstd, *gamma;
  float *dx, *partials;  // [groups, sums, width]
};

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

// dx = rstd (dy gamma - mean(dy gamma) - z mean(dy gamma z))
__device__ __forceinline__ float slope(float dy, float gamma, float z, float rstd, const RowSums& means) {
  return (dy * gamma - means.gradient - z * means.projection) * rstd;
}

// The sum over the threads of a team, in all of them. All teams of the block call it together. `turn` alternates between two
// places, so that one barrier is enough.
__device__ __forceinline__ RowSums sum_of_team(RowSums mine, int turn, int team_warps) {
  __shared__ RowSums of_warps[2][CudaLayerNormLayout::kMostThreads / kWarp];
  mine = {warp_sum(mine.gradient), warp_sum(mine.projection)};
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
template <int kPacks, class M>
__global__ void __launch_bounds__(CudaLayerNormLayout::most_threads(kPacks), kPacks <= 2 ? 2 : 1)
    layer_norm_backward_kernel(LayerNormBackward n, int team_threads, int teams) {
  using Floats = Pack<float, 4>;
  const int team = static_cast<int>(threadIdx.x) / team_threads, thread = static_cast<int>(threadIdx.x) % team_threads;
  const int width = static_cast<int>(n.width);
  const float inverse = 1.0f / static_cast<float>(width);
  const auto column_of = [&](int p) { return (p * team_threads + thread) * 4; };
  const Floats zeros{};
  Floats gamma[kPacks], dgamma[kPacks], dbeta[kPacks];
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    gamma[p] = column_of(p) < width ? load_pack(n.gamma + column_of(p)) : zeros;
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
      dy[p] = loads ? load_pack(n.dy + begin + column_of(p)) : zeros;
      z[p] = loads ? load_pack(n.x + begin + column_of(p)) : zeros;
    }
    const float mean = here ? n.mean[row] : 0.0f, rstd = here ? n.rstd[row] : 0.0f;
    RowSums sums{0, 0};
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        z[p].at[e] = (z[p].at[e] - mean) * rstd;
        if constexpr (M::kX) {
          const float scaled = dy[p].at[e] * gamma[p].at[e];
          sums.gradient += scaled;
          sums.projection += scaled * z[p].at[e];
        }
        if constexpr (M::kGamma) dgamma[p].at[e] += dy[p].at[e] * z[p].at[e];
        if constexpr (M::kBeta) dbeta[p].at[e] += dy[p].at[e];
      }
    }
    if constexpr (!M::kX) continue;
    sums = sum_of_team(sums, turn, team_threads / kWarp);
    const RowSums means{sums.gradient * inverse, sums.projection * inverse};
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (!here || column_of(p) >= width) continue;
#pragma unroll
      for (int e = 0; e < 4; ++e) dy[p].at[e] = slope(dy[p].at[e], gamma[p].at[e], z[p].at[e], rstd, means);
      store_pack(dy[p], n.dx + begin + column_of(p));
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

// For rows that are not held in registers: dgamma and dbeta come first, because dx may overwrite dy. A block has 32 columns. Rows
// go in turn to the warps of all blocks with these columns.
constexpr int kWarpsOfBlock = 8;

template <class M>
__global__ void __launch_bounds__(kWarpsOfBlock* kWarp) layer_norm_columns_kernel(LayerNormBackward n) {
  __shared__ RowSums of_warps[kWarpsOfBlock][kWarp];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kWarp + lane_of_warp();
  RowSums sums{0, 0};  // of dbeta and of dgamma
  const std::int64_t step = static_cast<std::int64_t>(gridDim.y) * kWarpsOfBlock;
  for (std::int64_t row = blockIdx.y * kWarpsOfBlock + warp_of_block(); column < n.width && row < n.rows; row += step) {
    const float dy = n.dy[row * n.width + column];
    if constexpr (M::kBeta) sums.gradient += dy;
    if constexpr (M::kGamma) sums.projection += dy * ((n.x[row * n.width + column] - n.mean[row]) * n.rstd[row]);
  }
  of_warps[warp_of_block()][lane_of_warp()] = sums;
  __syncthreads();
  if (warp_of_block() != 0 || column >= n.width) return;
  for (int w = 1; w < kWarpsOfBlock; ++w) {
    sums.gradient += of_warps[w][lane_of_warp()].gradient;
    sums.projection += of_warps[w][lane_of_warp()].projection;
  }
  float* const partials = n.partials + blockIdx.y * M::kSums * n.width;
  if constexpr (M::kGamma) partials[column] = sums.projection;
  if constexpr (M::kBeta) partials[(M::kSums - 1) * n.width + column] = sums.gradient;
}

template <class Row>
__global__ void __launch_bounds__(Row::kBlock) layer_norm_dx_kernel(LayerNormBackward n) {
  const float inverse = 1.0f / static_cast<float>(n.width);
  for_rows<Row>(n.rows, [&](std::int64_t row) {
    const float *dy = n.dy + row * n.width, *x = n.x + row * n.width;
    const float mean = n.mean[row], rstd = n.rstd[row];
    RowSums sums{0, 0};
    Row::for_each(n.width, [&](int, std::int64_t column) {
      const float scaled = dy[column] * n.gamma[column];
      sums.gradient += scaled;
      sums.projection += scaled * ((x[column] - mean) * rstd);
    });
    const RowSums means{sum_of_threads<Row>(sums.gradient) * inverse, sum_of_threads<Row>(sums.projection) * inverse};
    Row::for_each(n.width, [&](int, std::int64_t column) {
      n.dx[row * n.width + column] = slope(dy[column], n.gamma[column], (x[column] - mean) * rstd, rstd, means);
    });
  });
}

// The sums of groups, and dx.
template <class M>
void run_backward(const LayerNormBackward& n, const CudaLayerNormLayout& layout, void* stream) {
  const auto groups = static_cast<unsigned>(layout.groups);
  if (layout.packs == 0) {
    const auto strips = static_cast<unsigned>(ceil_div(n.width, std::int64_t{kWarp}));
    const Grid grid{{strips, groups}, {static_cast<unsigned>(kWarpsOfBlock * kWarp)}};
    if constexpr (M::kSums > 0) launch(layer_norm_columns_kernel<M>, grid, stream, n);
    if constexpr (!M::kX) return;
    if (n.width <= 1024) return launch(layer_norm_dx_kernel<PassedRow<1>>, grid_of_rows<PassedRow<1>>(n.rows), stream, n);
    return launch(layer_norm_dx_kernel<PassedRow<16>>, grid_of_rows<PassedRow<16>>(n.rows), stream, n);
  }
  const auto kernel = layout.packs == 1   ? layer_norm_backward_kernel<1, M>
                      : layout.packs == 2 ? layer_norm_backward_kernel<2, M>
                                          : layer_norm_backward_kernel<CudaLayerNormLayout::kMostPacks, M>;
  const auto shared_bytes = static_cast<std::size_t>(layout.shared().n);
  launch(kernel, {{groups}, {static_cast<unsigned>(layout.team * layout.teams)}, shared_bytes}, stream, n, layout.team,
         layout.teams);
}

}  // namespace
}  // namespace cuda

namespace {

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  const auto epsilon = static_cast<float>(request.attributes->as<ops::LayerNormAttributes>().epsilon);
  const Rows x(request.inputs[0]);
  const auto bind_to = [&]<class T>(T) {
    return cuda::with_row(x.width, [&]<class Row>(std::type_identity<Row>) {
      return make_kernel([x, epsilon](const KernelCall& call) {
        const cuda::LayerNorm n{x.rows, x.width, epsilon, call.in(0), call.out(1), call.out(2)};
        cuda::launch(cuda::layer_norm_kernel<Row, T>, cuda::grid_of_rows<Row>(x.rows), call.stream, n, call.in(1), call.in(2),
                     call.out<T>(0));
      });
    });
  };
  const DType output = request.outputs[0].dtype;
  if (output == DType::bf16) return bind_to(cuda::Bf16{});
  if (output == DType::f16) return bind_to(F16{});
  return bind_to(0.0f);
}

template <class M>
std::unique_ptr<Kernel> bind_backward_of(const KernelRequest& request) {
  const bool add = accumulates<ops::LayerNormBackwardAttributes>(request);
  cuda::allow_shared(cuda::layer_norm_backward_kernel<CudaLayerNormLayout::kMostPacks, M>, CudaLayerNormLayout::kMostShared);
  return make_kernel([layout = CudaLayerNormLayout(request), add](const KernelCall& call) {
    constexpr std::size_t kFirst = M::kX ? 1 : 0;  // of the sums
    const cuda::LayerNormBackward n{layout.rows,
                                    layout.width,
                                    call.in(0),
                                    call.in(1),
                                    call.in(2),
                                    call.in(3),
                                    call.in(4),
                                    M::kX ? call.out(0) : nullptr,
                                    reinterpret_cast<float*>(call.scratch)};
    cuda::run_backward<M>(n, layout, call.stream);
    if constexpr (M::kSums == 0) return;
    const cuda::ColumnSums sums{call.out(kFirst), M::kSums == 2 ? call.out(kFirst + 1) : nullptr, add};
    cuda::add_groups(layout.groups, M::kSums * layout.width, n.partials, sums, call.stream);
  });
}

std::unique_ptr<Kernel> bind_backward(const KernelRequest& request) {
  using cuda::Makes;
  const auto& made = request.attributes->as<ops::LayerNormBackwardAttributes>();
  if (!made.x) {
    return made.beta ? bind_backward_of<Makes<false, true, true>>(request) : bind_backward_of<Makes<false, true, false>>(request);
  }
  if (made.gamma && made.beta) return bind_backward_of<Makes<true, true, true>>(request);
  if (made.gamma) return bind_backward_of<Makes<true, true, false>>(request);
  if (made.beta) return bind_backward_of<Makes<true, false, true>>(request);
  return bind_backward_of<Makes<true, false, false>>(request);
}

}  // namespace

CudaKernels norm_cuda_kernels() { return {{&ops::kLayerNorm, bind}, {&ops::kLayerNormBackward, bind_backward}}; }

}  // namespace plimsoll
