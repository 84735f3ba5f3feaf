#include "ops/factored/cuda.h"

#include <type_traits>

#include "ops/cuda_kernel.h"
#include "ops/factored/squares.cuh"
#include "ops/update/rounding.cuh"
#include "ops/update/tile_sums.cuh"
#include "ops/update/update.h"

namespace plimsoll {
namespace cuda {
namespace {

constexpr int kClosingThreads = 1024;
constexpr float kLeast = 0x1p-23f;  // least mean of the rows; its square is the least variance

// The end of update_variance of a matrix.
struct Closing {
  std::int64_t rows, columns, strips, tiles, row_blocks;
  const float* coefficient;
  const double* blend;
  const float *row_sums, *column_sums;
  float *of_rows, *of_columns;

  __device__ __forceinline__ void move(float& variance, double mean) const {
    variance = static_cast<float>(variance + *blend * (mean - variance));
  }
};

// A warp has a row. Blocks of 32 columns, whose warps share the tiles, follow the blocks of rows.
__global__ void __launch_bounds__(kClosingThreads) close_kernel(const __grid_constant__ Closing closing) {
  constexpr int kWarps = kClosingThreads / kWarp;
  __shared__ double of_warps[kWarps][kWarp];
  if (closing.coefficient != nullptr && !is_finite(*closing.coefficient)) return;
  const int warp = static_cast<int>(warp_of_block()), lane = static_cast<int>(lane_of_warp());
  double sum = 0;
  if (blockIdx.x < closing.row_blocks) {
    const std::int64_t row = blockIdx.x * std::int64_t{kWarps} + warp;
    if (row >= closing.rows) return;
    for (std::int64_t strip = lane; strip < closing.strips; strip += kWarp) sum += closing.row_sums[row * closing.strips + strip];
    sum = warp_sum(sum);
    if (lane == 0) closing.move(closing.of_rows[row], sum / static_cast<double>(closing.columns));
    return;
  }
  const std::int64_t column = (blockIdx.x - closing.row_blocks) * kWarp + lane;
  if (column < closing.columns) {
#pragma unroll 4
    for (std::int64_t tile = warp; tile < closing.tiles; tile += kWarps)
      sum += closing.column_sums[tile * closing.columns + column];
  }
  of_warps[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || column >= closing.columns) return;
  sum = 0;
  for (int i = 0; i < kWarps; ++i) sum += of_warps[i][lane];
  closing.move(closing.of_columns[column], sum / static_cast<double>(closing.rows));
}

// A thread's groups of four elements in a piece of a tile, and their distance.
constexpr int kFours = 2, kApart = 4 * kTileThreads, kPieces = kCudaTile / (kFours * kApart);
static_assert(kPieces * kFours * kApart == kCudaTile);

__device__ __forceinline__ std::int64_t place_of(int piece, int f) {
  return blockIdx.x * kCudaTile + (piece * kFours + f) * kApart + 4 * threadIdx.x;
}
// Calls body(true) if the block's tile ends within the n elements, else body(false).
template <class Body>
__device__ __forceinline__ void for_pieces(std::int64_t n, Body body) {
  const bool whole = (blockIdx.x + std::int64_t{1}) * kCudaTile <= n;
#pragma unroll 1
  for (int piece = 0; piece < kPieces; ++piece) {
    if (whole) {
      body(piece, std::true_type());
    } else {
      body(piece, std::false_type());
    }
  }
}

template <class G>
struct VectorVariance {
  std::int64_t n;
  float* variance;
  Gradient<G> gradient;
  const double* scalars;
};

template <class G>
__global__ void __launch_bounds__(kTileThreads) vector_variance_kernel(VectorVariance<G> v) {
  __shared__ float shared_blend;
  if (threadIdx.x == 0) shared_blend = static_cast<float>(blend_of(v.scalars));
  __syncthreads();
  const float blend = shared_blend;
  const Taken taken = v.gradient.taken();
  if (!is_finite(taken.scale)) return;
  for_pieces(v.n, [&]<bool kWhole>(int piece, std::bool_constant<kWhole>) {
    Four<float> variance[kFours];
    Four<G> g[kFours];
#pragma unroll
    for (int f = 0; f < kFours; ++f) {
      variance[f] = load_four<kWhole>(v.variance, place_of(piece, f), v.n);
      g[f] = load_four<kWhole>(v.gradient.numbers, place_of(piece, f), v.n);
    }
#pragma unroll
    for (int f = 0; f < kFours; ++f) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float x = taken(widen(g[f].at[e])), before = variance[f].at[e];
        variance[f].at[e] = fmaf(blend, __fmul_rn(x, x) - before, before);
      }
      store_four<kWhole>(variance[f], v.variance, place_of(piece, f), v.n);
    }
  });
}

__global__ void __launch_bounds__(kClosingThreads) mean_kernel(std::int64_t rows, const float* of_rows, double* inverse) {
  double sum = 0;
#pragma unroll 8
  for (std::int64_t i = threadIdx.x; i < rows; i += kClosingThreads) sum += of_rows[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *inverse = 1 / fmax(sum / static_cast<double>(rows), double{kLeast});
}

// Reads second moments of four elements of a range at a time.
struct ElementVariance {
  const float* numbers;  // of the range

  template <bool kWhole>
  __device__ __forceinline__ Four<float> load(std::int64_t i, std::int64_t n) const {
    return load_four<kWhole>(numbers, i, n);
  }
};

// The variance of a row times that of a column over the mean of the rows.
struct MatrixVariance {
  std::int64_t columns, first;  // where the range begins
  const float *of_rows, *of_columns;
  const double* inverse_mean;
  bool packed;  // rows begin at multiples of four elements

  template <bool kWhole>
  __device__ __forceinline__ Four<float> load(std::int64_t i, std::int64_t n) const {
    std::int64_t row = (first + i) / columns, column = first + i - row * columns;
    Four<float> variance{};
    if (!kWhole && i >= n) return variance;
    if (packed) {
      variance = load_pack(of_columns + column);
      const float factor = factor_of(row);
#pragma unroll
      for (int e = 0; e < 4; ++e) variance.at[e] *= factor;
      return variance;
    }
    float factor = factor_of(row);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (!kWhole && i + e >= n) continue;
      if (column == columns) {
        column = 0;
        factor = factor_of(++row);
      }
      variance.at[e] = factor * of_columns[column++];
    }
    return variance;
  }
  __device__ __forceinline__ float factor_of(std::int64_t row) const { return static_cast<float>(of_rows[row] * *inverse_mean); }
};

__device__ __forceinline__ float update_of(float g, float variance) { return g / sqrtf(fmaxf(variance, kLeast * kLeast)); }

template <class P, class G, class V>
struct Size {
  std::int64_t n;
  const P* p;
  V variance;
  Gradient<G> gradient;
  Sums<2>* of_tiles;
};

template <class P, class G, class V>
__global__ void __launch_bounds__(kTileThreads) size_kernel(const __grid_constant__ Size<P, G, V> s) {
  const Taken taken = s.gradient.taken();
  float sums[2]{};
  for_pieces(s.n, [&]<bool kWhole>(int piece, std::bool_constant<kWhole>) {
    Four<P> p[kFours];
    Four<G> g[kFours];
    Four<float> variance[kFours];
#pragma unroll
    for (int f = 0; f < kFours; ++f) {
      p[f] = load_four<kWhole>(s.p, place_of(piece, f), s.n);
      g[f] = load_four<kWhole>(s.gradient.numbers, place_of(piece, f), s.n);
      variance[f] = s.variance.template load<kWhole>(place_of(piece, f), s.n);
    }
#pragma unroll
    for (int i = 0; i < 4 * kFours; ++i) {
      const int f = i / 4, e = i % 4;
      if (!kWhole && place_of(piece, f) + e >= s.n) continue;
      const float before = widen(p[f].at[e]), u = update_of(taken(widen(g[f].at[e])), variance[f].at[e]);
      sums[0] = fmaf(before, before, sums[0]);
      sums[1] = fmaf(u, u, sums[1]);
    }
  });
  const Sums<2> all = sums_of_block<2>(sums);
  if (threadIdx.x == 0) s.of_tiles[blockIdx.x] = all;
}

template <class P, class G, class V>
struct Step {
  std::int64_t n, first;  // elements of the range, and the first of them
  std::int64_t all;       // elements of the parameter
  P* p;
  float* average;  // null: none
  V variance;
  Gradient<G> gradient;
  const Sums<2>* sizes;
  const double* scalars;
  double weight_decay, average_blend;
  NoiseKey rounding;
  Sums<2>* change;
};

// Numbers that all elements share: one thread of a block computes them.
struct SharedStep {
  float keep, size, blend;
  std::uint32_t update[2];
  bool first, none;
  double relative;  // `size` before rounding

  template <class S>
  __device__ static SharedStep of(const S& s) {
    constexpr double kLeastSize = 1e-3;
    const auto update = static_cast<std::uint64_t>(s.scalars[ops::kUpdate]);
    const double lr = s.scalars[ops::kLearningRate], n = static_cast<double>(s.all);
    const double rate = fmin(lr, 1 / sqrt(static_cast<double>(update)));
    const double size = fmax(kLeastSize, sqrt(s.sizes->of[0] / n)) * rate / fmax(1.0, sqrt(s.sizes->of[1] / n));
    return {static_cast<float>(1 - lr * s.weight_decay),
            static_cast<float>(size),
            static_cast<float>(s.average_blend),
            {static_cast<std::uint32_t>(update), static_cast<std::uint32_t>(update >> 32)},
            update == 1,
            !is_finite(s.gradient.taken().scale),
            size};
  }
};

// Computed from the sums of update_size over all ranges.
template <class S>
__device__ __forceinline__ Sums<2> change_of(const S& s, const SharedStep& shared) {
  if (shared.none) return {};
  return {{s.sizes->of[0], shared.relative * shared.relative * s.sizes->of[1]}};
}

template <class P>
__device__ __forceinline__ Four<P> rounded(const Four<float>& p, [[maybe_unused]] const Rounding& rounding,
                                           [[maybe_unused]] std::int64_t group) {
  if constexpr (std::is_same_v<P, float>) {
    return p;
  } else {
    const PhiloxWords words = rounding.words(group);
    Four<P> narrow;
#pragma unroll
    for (int e = 0; e < 4; ++e) narrow.at[e] = round_by(p.at[e], words[e]);
    return narrow;
  }
}

template <class P, class G, class V>
__global__ void __launch_bounds__(kTileThreads) adafactor_kernel(const __grid_constant__ Step<P, G, V> s) {
  __shared__ SharedStep shared;
  if (threadIdx.x == 0) shared = SharedStep::of(s);
  if (thread_of_grid() == 0) *s.change = change_of(s, shared);
  __syncthreads();
  if (shared.none) return;
  const Taken taken = s.gradient.taken();
  const Rounding rounding{s.rounding, {shared.update[0], shared.update[1]}};
  for_pieces(s.n, [&]<bool kWhole>(int piece, std::bool_constant<kWhole>) {
    Four<P> before[kFours];
    Four<G> g[kFours];
    Four<float> variance[kFours];
#pragma unroll
    for (int f = 0; f < kFours; ++f) {
      before[f] = load_four<kWhole>(s.p, place_of(piece, f), s.n);
      g[f] = load_four<kWhole>(s.gradient.numbers, place_of(piece, f), s.n);
      variance[f] = s.variance.template load<kWhole>(place_of(piece, f), s.n);
    }
#pragma unroll
    for (int f = 0; f < kFours; ++f) {
      const std::int64_t i = place_of(piece, f);
      Four<float> p, average{};
      if (s.average != nullptr) average = load_four<kWhole>(s.average, i, s.n);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float u = update_of(taken(widen(g[f].at[e])), variance[f].at[e]);
        p.at[e] = fmaf(-shared.size, u, widen(before[f].at[e]) * shared.keep);
        average.at[e] = shared.first ? p.at[e] : fmaf(shared.blend, p.at[e] - average.at[e], average.at[e]);
      }
      store_four<kWhole>(rounded<P>(p, rounding, (s.first + i) / 4), s.p, i, s.n);
      if (s.average != nullptr) store_four<kWhole>(average, s.average, i, s.n);
    }
  });
}

}  // namespace
}  // namespace cuda

namespace {

using At = ops::FactoredOperands;

// The operands of a call of any of the three ops, by name.
struct Operands {
  ops::FactoredAttributes a;
  At at;
  CudaFactoredShape shape;

  Operands(const KernelRequest& request, At (*where)(const ops::FactoredAttributes&))
      : a(factored_of(request)), at(where(a)), shape(cuda_factored_shape(request, at)) {}

  std::int64_t count(const KernelCall& call) const { return call.range.whole() ? shape.elements() : call.range.elements; }
  cuda::Grid grid(const KernelCall& call) const {
    return {{static_cast<unsigned>(ceil_div(count(call), kCudaTile)), 1, 1}, {cuda::kTileThreads, 1, 1}, 0};
  }
  template <class G>
  cuda::Gradient<G> gradient(const KernelCall& call) const {
    const float* coefficient = at.coefficient == At::kAbsent ? nullptr : call.in(at.coefficient);
    return {call.in<G>(at.gradient), coefficient, a.clip_value};
  }
  bool packed() const { return shape.columns % 4 == 0; }

  // `mean`: an address in scratch, written by an earlier kernel than those that read it.
  template <class V>
  V variance(const KernelCall& call, double* mean) const {
    if constexpr (std::is_same_v<V, cuda::ElementVariance>) {
      return {call.in(at.state(0))};
    } else {
      cuda::launch(cuda::mean_kernel, {{1, 1, 1}, {cuda::kClosingThreads, 1, 1}, 0}, call.stream, shape.rows, call.in(at.rows()),
                   mean);
      return {shape.columns, call.range.begin, call.in(at.rows()), call.in(at.columns()), mean, packed()};
    }
  }
};

template <bool kPacked, class G>
std::unique_ptr<Kernel> bind_matrix_variance(const Operands& o) {
  return make_kernel([o, layout = CudaVarianceLayout(o.shape)](const KernelCall& call) {
    const std::int64_t begin = call.range.begin, end = begin + o.count(call), per_tile = layout.tile * o.shape.columns;
    const std::int64_t first_tile = begin / per_tile, units = (ceil_div(end, per_tile) - first_tile) * layout.strips;
    const auto floats = [&](Bytes at) { return reinterpret_cast<float*>(call.scratch + at.n); };
    double* blend = reinterpret_cast<double*>(call.scratch);
    const cuda::Squares<G> squares{o.shape.rows,
                                   o.shape.columns,
                                   begin,
                                   end,
                                   layout.tile,
                                   layout.strips,
                                   first_tile,
                                   units,
                                   o.gradient<G>(call),
                                   call.in<double>(o.at.scalars),
                                   blend,
                                   floats(layout.row_sums),
                                   floats(layout.cuts),
                                   floats(layout.column_sums)};
    const auto blocks = static_cast<unsigned>(ceil_div(units, cuda::kSquaresThreads / cuda::kWarp));
    cuda::launch(cuda::squares_kernel<kPacked, G>, {{blocks, 1, 1}, {cuda::kSquaresThreads, 1, 1}, 0}, call.stream, squares);
    if (end < o.shape.elements()) return;
    const std::int64_t row_blocks = ceil_div(o.shape.rows, cuda::kClosingThreads / cuda::kWarp);
    const cuda::Closing closing{o.shape.rows,
                                o.shape.columns,
                                layout.strips,
                                layout.tiles,
                                row_blocks,
                                squares.gradient.coefficient,
                                blend,
                                squares.row_sums,
                                squares.column_sums,
                                call.out(o.at.rows()),
                                call.out(o.at.columns())};
    const auto all_blocks = static_cast<unsigned>(row_blocks + ceil_div(o.shape.columns, cuda::kWarp));
    cuda::launch(cuda::close_kernel, {{all_blocks, 1, 1}, {cuda::kClosingThreads, 1, 1}, 0}, call.stream, closing);
  });
}

template <class G>
std::unique_ptr<Kernel> bind_variance_of(const Operands& o) {
  if (o.a.factored) return o.packed() ? bind_matrix_variance<true, G>(o) : bind_matrix_variance<false, G>(o);
  return make_kernel([o](const KernelCall& call) {
    const cuda::VectorVariance<G> v{o.count(call), call.out(o.at.state(0)), o.gradient<G>(call), call.in<double>(o.at.scalars)};
    cuda::launch(cuda::vector_variance_kernel<G>, o.grid(call), call.stream, v);
  });
}

std::unique_ptr<Kernel> bind_variance(const KernelRequest& request) {
  const Operands o(request, At::of_variance);
  return request.inputs[o.at.gradient].dtype == DType::bf16 ? bind_variance_of<cuda::Bf16>(o) : bind_variance_of<float>(o);
}

template <class P, class G, class V>
std::unique_ptr<Kernel> bind_size_of(const Operands& o) {
  return make_kernel([o, sums = cuda::TileSums<2>(o.shape.elements(), kCudaTile)](const KernelCall& call) {
    std::byte* scratch = call.scratch + (o.a.factored ? kCudaMean.n : 0);
    double* sizes = call.out<double>(At::sizes_made());
    const cuda::Size<P, G, V> size{o.count(call), call.in<P>(o.at.parameter),
                                   o.variance<V>(call, reinterpret_cast<double*>(call.scratch)), o.gradient<G>(call),
                                   sums.of_tiles(call, scratch, sizes)};
    cuda::launch(cuda::size_kernel<P, G, V>, o.grid(call), call.stream, size);
    sums.add(call, scratch, sizes);
  });
}

template <class P, class G, class V>
std::unique_ptr<Kernel> bind_update_of(const Operands& o) {
  return make_kernel([o](const KernelCall& call) {
    const cuda::Step<P, G, V> step{o.count(call),
                                   call.range.begin,
                                   o.shape.elements(),
                                   call.out<P>(o.at.parameter),
                                   o.at.average == At::kAbsent ? nullptr : call.out(o.at.average),
                                   o.variance<V>(call, reinterpret_cast<double*>(call.scratch)),
                                   o.gradient<G>(call),
                                   call.in<cuda::Sums<2>>(o.at.sizes),
                                   call.in<double>(o.at.scalars),
                                   o.a.weight_decay,
                                   o.a.average_blend,
                                   o.a.rounding,
                                   call.out<cuda::Sums<2>>(o.at.change())};
    cuda::launch(cuda::adafactor_kernel<P, G, V>, o.grid(call), call.stream, step);
  });
}

// Calls body with numbers of the types of parameter and gradient, and with the variances.
template <class Body>
std::unique_ptr<Kernel> with_types(const KernelRequest& request, const Operands& o, Body body) {
  const auto with_gradient = [&]<class P>(P) {
    const auto with_variance = [&]<class G>(G) {
      if (o.a.factored) return body(P{}, G{}, cuda::MatrixVariance{});
      return body(P{}, G{}, cuda::ElementVariance{});
    };
    return request.inputs[o.at.gradient].dtype == DType::bf16 ? with_variance(cuda::Bf16{}) : with_variance(0.0f);
  };
  return request.inputs[o.at.parameter].dtype == DType::bf16 ? with_gradient(cuda::Bf16{}) : with_gradient(0.0f);
}

std::unique_ptr<Kernel> bind_size(const KernelRequest& request) {
  const Operands o(request, At::of_size);
  return with_types(request, o, [&]<class P, class G, class V>(P, G, V) { return bind_size_of<P, G, V>(o); });
}

std::unique_ptr<Kernel> bind_update(const KernelRequest& request) {
  const Operands o(request, At::of_update);
  return with_types(request, o, [&]<class P, class G, class V>(P, G, V) { return bind_update_of<P, G, V>(o); });
}

}  // namespace

CudaKernels factored_cuda_kernels() {
  return {{&ops::kUpdateVariance, bind_variance}, {&ops::kUpdateSize, bind_size}, {&ops::kAdafactor, bind_update}};
}

}  // namespace plimsoll
