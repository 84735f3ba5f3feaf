#include <algorithm>
#include <type_traits>

#include "ops/cuda_kernel.h"
#include "ops/update/coded.cuh"
#include "ops/update/cuda.h"
#include "ops/update/optimizers.cuh"
#include "ops/update/rounding.cuh"
#include "ops/update/tile_sums.cuh"
#include "ops/update/update.h"

namespace plimsoll {
namespace cuda {
namespace {

// Squares are exact in fp64, like those of the CPU.
template <class T>
__global__ void __launch_bounds__(kTileThreads) sum_of_squares_kernel(std::int64_t n, const T* x, Sums<1>* of_tiles) {
  constexpr int kElements = 16 / sizeof(T), kPacks = kCudaSquaresTile / (kTileThreads * kElements);
  const std::int64_t tile = blockIdx.x * kCudaSquaresTile, at = tile + threadIdx.x * kElements;
  Pack<T> packs[kPacks]{};
  if (tile + kCudaSquaresTile <= n) {
#pragma unroll
    for (int i = 0; i < kPacks; ++i) packs[i] = load_pack(x + at + i * kTileThreads * kElements);
  } else {
#pragma unroll
    for (int i = 0; i < kPacks * kElements; ++i) {
      const std::int64_t element = at + i / kElements * kTileThreads * kElements + i % kElements;
      if (element < n) packs[i / kElements].at[i % kElements] = x[element];
    }
  }
  double sum[1]{};
#pragma unroll
  for (int i = 0; i < kPacks * kElements; ++i) {
    const double value = widen(packs[i / kElements].at[i % kElements]);
    sum[0] = fma(value, value, sum[0]);
  }
  const Sums<1> all = sums_of_block<1>(sum);
  if (threadIdx.x == 0) of_tiles[blockIdx.x] = all;
}

// Pointers are passed by value, as many as fit into 4 KiB of parameters.
constexpr int kMostSums = 448, kMostParts = 224, kClipThreads = 256, kReportThreads = 64;

struct SomeSums {
  int count;
  const double* at[kMostSums];
};

// `first` and `last` of the kernels of a clip. Before the last one `norm` holds the total so far.
struct Clip {
  bool first, last;
  double limit;
  const double* scalars;  // null: no scale
  double* norm;
  float* coefficient;

  // A norm that is not finite gives NaN.
  __device__ double coefficient_of(double norm) const {
    if (!(norm < INFINITY)) return NAN;
    if (limit == 0) return 1;
    const double coefficient = limit / (norm + 1e-6);
    return coefficient > 1 ? 1 : coefficient;
  }
};

__global__ void __launch_bounds__(kClipThreads) clip_kernel(const __grid_constant__ SomeSums sums, Clip clip) {
  double mine = 0;
  for (int i = threadIdx.x; i < sums.count; i += kClipThreads) mine += *sums.at[i];
  const double some = block_sum(mine);
  if (threadIdx.x > 0) return;
  const double sum = clip.first ? some : *clip.norm + some;
  if (!clip.last) {
    *clip.norm = sum;
    return;
  }
  const double inverse_scale = clip.scalars == nullptr ? 1 : clip.scalars[ops::kInverseScale], norm = sqrt(sum) * inverse_scale;
  *clip.norm = norm;
  *clip.coefficient = static_cast<float>(clip.coefficient_of(norm) * inverse_scale);
}

struct Parts {
  const double* from[kMostParts];
  std::int64_t ends[kMostParts];  // ends of the parts in the report
};

// A block has a part.
__global__ void __launch_bounds__(kReportThreads)
    report_kernel(const __grid_constant__ Parts parts, std::int64_t begin, double* to) {
  const std::int64_t from = blockIdx.x == 0 ? begin : parts.ends[blockIdx.x - 1], end = parts.ends[blockIdx.x];
  for (std::int64_t i = threadIdx.x; i < end - from; i += kReportThreads) to[from + i] = parts.from[blockIdx.x][i];
}

// A state of 32 or 16 bits, or of 8 bits with the scales of its blocks.
template <class S>
struct State {
  S* numbers;
  float* scales;
};

template <class Rule, class P, class G, class S>
struct Update {
  typename Rule::Attributes attributes;
  std::int64_t n, first;  // elements of the range, and the first of them
  P* p;
  State<S> states[2];
  float* average;  // null: none
  const G* g;
  const double* scalars;
  const float* coefficient;  // null: none
  Sums<2>* of_tiles;
};

// Numbers that all elements share: one thread of a block computes them.
template <class Rule>
struct Shared {
  Rule rule;
  float blend;
  std::uint32_t update[2];
  bool first, none;

  template <class U>
  __device__ static Shared of(const U& u) {
    const float scale = u.coefficient == nullptr ? 1.0f : *u.coefficient;
    const auto update = static_cast<std::uint64_t>(u.scalars[ops::kUpdate]);
    return {Rule::of(u.attributes, u.scalars, Taken::of(scale, u.attributes.clip_value)),
            static_cast<float>(u.attributes.average_blend),
            {static_cast<std::uint32_t>(update), static_cast<std::uint32_t>(update >> 32)},
            update == 1,
            !is_finite(scale)};
  }
};

// The random bits that round a number. Narrow numbers take half a word of their element in turn, the third one from another
// stream. Coded states come first for any type of the parameter.
template <class Rule, class P, class S>
struct Halves {
  static constexpr bool kCoded = std::is_same_v<S, std::uint8_t>, kNarrowParameter = std::is_same_v<P, Bf16>;
  static constexpr bool kNarrowStates = std::is_same_v<S, Bf16> && Rule::kStates > 0;
  // The streams that are drawn before the update of an element.
  static constexpr bool kFirst = !kCoded && (kNarrowParameter || kNarrowStates);
  static constexpr bool kSecond = kNarrowParameter && (kCoded || (kNarrowStates && Rule::kStates > 1));

  static constexpr int of_parameter() { return kCoded ? 2 : 0; }
  static constexpr int of_state(int s) { return s + (!kCoded && kNarrowParameter ? 1 : 0); }
};

struct Noise {
  PhiloxWords first, second;

  template <bool kFirst, bool kSecond>
  __device__ __forceinline__ static Noise of(const Rounding& rounding, std::int64_t group) {
    Noise noise{};
    if constexpr (kFirst) noise.first = rounding.words(group);
    if constexpr (kSecond) noise.second = rounding.words(group, Rounding::kSecondStream);
    return noise;
  }
  __device__ __forceinline__ std::uint32_t half(int number, int e) const {
    return (number < 2 ? first : second)[e] >> 16 * (number % 2);
  }
};

template <class T>
__device__ __forceinline__ T rounded(float x, [[maybe_unused]] std::uint32_t half) {
  if constexpr (std::is_same_v<T, float>) {
    return x;
  } else {
    return round_by(x, half);
  }
}

// A warp has a block of coded states at a time, and a thread groups of four elements of it, at this distance.
constexpr int kFours = 2, kApart = 4 * kWarp, kPieces = kCudaTile / (4 * kFours * kTileThreads);
static_assert(kFours * kApart == ops::kCodedBlock && kPieces * 4 * kFours * kTileThreads == kCudaTile);

// A thread's part of a piece of a tile during its update. `kWhole`: the tile ends within the range.
template <bool kWhole, class Rule, class P, class G, class S>
class Held {
  using H = Halves<Rule, P, S>;
  static constexpr int kStates = Rule::kStates, kPlaces = kStates > 0 ? kStates : 1;

 public:
  __device__ __forceinline__ explicit Held(const Update<Rule, P, G, S>& update, int piece)
      : u_(update),
        block_((blockIdx.x * std::int64_t{kPieces} + piece) * (kTileThreads / kWarp) + warp_of_block()),
        at_(block_ * ops::kCodedBlock + 4 * lane_of_warp()) {}

  __device__ __forceinline__ void load() {
#pragma unroll
    for (int f = 0; f < kFours; ++f) {
      g_[f] = load_four<kWhole>(u_.g, place(f), u_.n);
      p_[f] = load_four<kWhole>(u_.p, place(f), u_.n);
#pragma unroll
      for (int s = 0; s < kStates; ++s) states_[s][f] = load_four<kWhole>(u_.states[s].numbers, place(f), u_.n);
    }
    if constexpr (H::kCoded) {
#pragma unroll
      for (int s = 0; s < kStates; ++s) scales_[s] = block_begins() ? u_.states[s].scales[block_] : 0.0f;
    }
  }

  // Adds to the sums of squares of the parameter before the update, and of its change. The average does not count.
  __device__ __forceinline__ void update(const Shared<Rule>& shared, float (&changes)[2]) {
    const Rounding rounding{u_.attributes.rounding, {shared.update[0], shared.update[1]}};
#pragma unroll
    for (int f = 0; f < kFours; ++f) {
      Four<float> average{};
      if (u_.average != nullptr) average = load_four<kWhole>(u_.average, place(f), u_.n);
      const Noise noise = Noise::of<H::kFirst, H::kSecond>(rounding, (u_.first + place(f)) / 4);
#pragma unroll
      for (int e = 0; e < 4; ++e) update_element(shared, noise, f, e, average.at[e], changes);
      if (u_.average != nullptr) store_four<kWhole>(average, u_.average, place(f), u_.n);
    }
    if constexpr (H::kCoded) code(rounding);
  }

  __device__ __forceinline__ void store() const {
#pragma unroll
    for (int f = 0; f < kFours; ++f) {
      store_four<kWhole>(p_[f], u_.p, place(f), u_.n);
#pragma unroll
      for (int s = 0; s < kStates; ++s) store_four<kWhole>(states_[s][f], u_.states[s].numbers, place(f), u_.n);
    }
    if constexpr (H::kCoded) {
#pragma unroll
      for (int s = 0; s < kStates; ++s) {
        if (lane_of_warp() == 0 && block_begins()) u_.states[s].scales[block_] = scales_[s];
      }
    }
  }

 private:
  __device__ __forceinline__ std::int64_t place(int f) const { return at_ + f * kApart; }
  __device__ __forceinline__ bool block_begins() const { return kWhole || block_ * ops::kCodedBlock < u_.n; }

  __device__ __forceinline__ float state(int s, int f, int e) const {
    if constexpr (!H::kCoded) {
      return widen(states_[s][f].at[e]);
    } else {
      return s == 0 ? Coded<true>::decode(states_[s][f].at[e], scales_[s])
                    : Coded<false>::decode(states_[s][f].at[e], scales_[s]);
    }
  }

  // Coded states stay in fp32 until the largest number of the block is known. Elements past the end do not count.
  __device__ __forceinline__ void update_element(const Shared<Rule>& shared, const Noise& noise, int f, int e, float& average,
                                                 float (&changes)[2]) {
    float states[kPlaces];
#pragma unroll
    for (int s = 0; s < kStates; ++s) states[s] = state(s, f, e);
    if (kWhole || place(f) + e < u_.n) {
      float p = widen(p_[f].at[e]);
      const float before = p;
      shared.rule(widen(g_[f].at[e]), p, states);
      const float step = p - before;
      changes[0] = fmaf(before, before, changes[0]);
      changes[1] = fmaf(step, step, changes[1]);
      average = shared.first ? p : fmaf(shared.blend, p - average, average);
      p_[f].at[e] = rounded<P>(p, noise.half(H::of_parameter(), e));
    }
#pragma unroll
    for (int s = 0; s < kStates; ++s) {
      if constexpr (H::kCoded) {
        wide_[s][f][e] = states[s];
      } else {
        states_[s][f].at[e] = rounded<S>(states[s], noise.half(H::of_state(s), e));
      }
    }
  }

  __device__ __forceinline__ void code(const Rounding& rounding) {
    float inverse[kPlaces];
#pragma unroll
    for (int s = 0; s < kStates; ++s) {
      std::uint32_t most = 0;
#pragma unroll
      for (int i = 0; i < 4 * kFours; ++i) {
        const auto size = std::bit_cast<std::uint32_t>(fabsf(wide_[s][i / 4][i % 4]));
        most = size > most ? size : most;
      }
      const BlockScale scale = BlockScale::of(most);
      scales_[s] = scale.scale;
      inverse[s] = scale.inverse;
    }
#pragma unroll
    for (int f = 0; f < kFours; ++f) {
      const Noise noise = Noise::of<true, false>(rounding, (u_.first + place(f)) / 4);
#pragma unroll
      for (int i = 0; i < 4 * kStates; ++i) {
        const int s = i / 4, e = i % 4;
        const std::uint32_t half = noise.half(H::of_state(s), e);
        states_[s][f].at[e] = s == 0 ? Coded<true>::encode(wide_[s][f][e], inverse[s], half)
                                     : Coded<false>::encode(wide_[s][f][e], inverse[s], half);
      }
    }
  }

  const Update<Rule, P, G, S>& u_;
  std::int64_t block_, at_;
  Four<G> g_[kFours];
  Four<P> p_[kFours];
  Four<S> states_[kPlaces][kFours];
  float scales_[kPlaces], wide_[kPlaces][kFours][4];
};

template <bool kWhole, class Rule, class P, class G, class S>
__device__ __forceinline__ void update_tile(const Update<Rule, P, G, S>& u, const Shared<Rule>& shared, float (&changes)[2]) {
#pragma unroll 1
  for (int piece = 0; piece < kPieces; ++piece) {
    Held<kWhole, Rule, P, G, S> held(u, piece);
    held.load();
    held.update(shared, changes);
    held.store();
  }
}

// With a coefficient that is not finite an update changes nothing.
template <class Rule, class P, class G, class S>
__global__ void __launch_bounds__(kTileThreads, 3) update_kernel(const __grid_constant__ Update<Rule, P, G, S> u) {
  __shared__ Shared<Rule> shared;
  if (threadIdx.x == 0) shared = Shared<Rule>::of(u);
  __syncthreads();
  float changes[2]{};
  const bool whole = (blockIdx.x + std::int64_t{1}) * kCudaTile <= u.n;
  if (!shared.none && whole) update_tile<true>(u, shared, changes);
  if (!shared.none && !whole) update_tile<false>(u, shared, changes);
  const Sums<2> sums = sums_of_block<2>(changes);
  if (threadIdx.x == 0) u.of_tiles[blockIdx.x] = sums;
}

}  // namespace
}  // namespace cuda

namespace {

template <class T>
std::unique_ptr<Kernel> bind_sum_from(std::int64_t n) {
  return make_kernel([sums = cuda::TileSums<1>(n, kCudaSquaresTile)](const KernelCall& call) {
    cuda::launch(cuda::sum_of_squares_kernel<T>, sums.grid(call), call.stream, sums.count(call), call.in<T>(0),
                 sums.of_tiles(call, call.scratch, call.out<double>(0)));
    sums.add(call, call.scratch, call.out<double>(0));
  });
}

std::unique_ptr<Kernel> bind_sum(const KernelRequest& request) {
  const std::int64_t n = request.inputs[0].shape.elements();
  return request.inputs[0].dtype == DType::bf16 ? bind_sum_from<cuda::Bf16>(n) : bind_sum_from<float>(n);
}

std::unique_ptr<Kernel> bind_clip(const KernelRequest& request) {
  return make_kernel([a = request.attributes->as<ops::ClipAttributes>()](const KernelCall& call) {
    const ops::ClipOperands at = ops::ClipOperands::of(a, call.inputs.size());
    std::size_t done = 0;
    do {
      cuda::SomeSums sums{};
      sums.count = static_cast<int>(std::min<std::size_t>(at.sums - done, cuda::kMostSums));
      const bool first = done == 0;
      for (int i = 0; i < sums.count; ++i) sums.at[i] = call.in<double>(done++);
      const double* scalars = a.scaled ? call.in<double>(at.scalars()) : nullptr;
      const cuda::Clip clip{first, done == at.sums, a.limit, scalars, call.out<double>(at.norm), call.out(at.coefficient)};
      cuda::launch(cuda::clip_kernel, {{1, 1, 1}, {cuda::kClipThreads, 1, 1}, 0}, call.stream, sums, clip);
    } while (done < at.sums);
  });
}

std::unique_ptr<Kernel> bind_report(const KernelRequest& request) {
  std::vector<std::int64_t> ends;
  for (const ValueType& input : request.inputs) ends.push_back((ends.empty() ? 0 : ends.back()) + input.shape.elements());
  return make_kernel([ends = std::move(ends)](const KernelCall& call) {
    for (std::size_t done = 0; done < ends.size();) {
      const std::int64_t begin = done == 0 ? 0 : ends[done - 1];
      cuda::Parts parts{};
      unsigned count = 0;
      for (; count < cuda::kMostParts && done < ends.size(); ++count, ++done) {
        parts.from[count] = call.in<double>(done);
        parts.ends[count] = ends[done];
      }
      cuda::launch(cuda::report_kernel, {{count, 1, 1}, {cuda::kReportThreads, 1, 1}, 0}, call.stream, parts, begin,
                   call.out<double>(0));
    }
  });
}

// The state with this number, from 0. Scales are whole even if the other operands are ranges.
template <class S>
cuda::State<S> state_of(const ops::UpdateOperands& at, const KernelCall& call, int number) {
  const auto state = static_cast<std::size_t>(number);
  if constexpr (std::is_same_v<S, std::uint8_t>) {
    return {call.out<S>(at.state(state)), call.out(at.scales(state)) + call.range.begin / ops::kCodedBlock};
  } else {
    return {call.out<S>(at.state(state)), nullptr};
  }
}

template <class Rule, class P, class G, class S>
std::unique_ptr<Kernel> bind_update_of(const typename Rule::Attributes& a, std::int64_t n) {
  return make_kernel([a, sums = cuda::TileSums<2>(n, kCudaTile)](const KernelCall& call) {
    const ops::UpdateOperands at = a.operands();
    double* change = call.out<double>(at.change());
    cuda::Update<Rule, P, G, S> update{
        .attributes = a, .n = sums.count(call), .first = call.range.begin, .p = call.out<P>(at.parameter())};
    for (int s = 0; s < Rule::kStates; ++s) update.states[s] = state_of<S>(at, call, s);
    if (at.averaged()) update.average = call.out(at.average());
    update.g = call.in<G>(at.gradient());
    update.scalars = call.in<double>(at.scalars());
    if (at.clipped()) update.coefficient = call.in(at.coefficient());
    update.of_tiles = sums.of_tiles(call, call.scratch, change);
    cuda::launch(cuda::update_kernel<Rule, P, G, S>, sums.grid(call), call.stream, update);
    sums.add(call, call.scratch, change);
  });
}

// Calls body with numbers of the types of parameter, gradient and states.
template <bool kStates, class Body>
std::unique_ptr<Kernel> with_types(const KernelRequest& request, const ops::UpdateOperands& at, Body body) {
  const auto with_gradient = [&]<class P>(P) {
    const auto with_states = [&]<class G>(G) {
      if constexpr (kStates) {
        if (request.inputs[at.state(0)].dtype == DType::u8) return body(P{}, G{}, std::uint8_t{});
        if (request.inputs[at.state(0)].dtype == DType::bf16) return body(P{}, G{}, cuda::Bf16{});
      }
      return body(P{}, G{}, 0.0f);
    };
    return request.inputs[at.gradient()].dtype == DType::bf16 ? with_states(cuda::Bf16{}) : with_states(0.0f);
  };
  return request.inputs[at.parameter()].dtype == DType::bf16 ? with_gradient(cuda::Bf16{}) : with_gradient(0.0f);
}

template <class Rule>
std::unique_ptr<Kernel> bind_update(const KernelRequest& request) {
  const auto& a = request.attributes->as<typename Rule::Attributes>();
  const std::int64_t n = request.inputs[ops::UpdateOperands::parameter()].shape.elements();
  return with_types<(Rule::kStates > 0)>(request, a.operands(),
                                         [&]<class P, class G, class S>(P, G, S) { return bind_update_of<Rule, P, G, S>(a, n); });
}

std::unique_ptr<Kernel> bind_sgd(const KernelRequest& request) {
  const bool momentum = request.attributes->as<ops::SgdAttributes>().momentum;
  return momentum ? bind_update<cuda::SgdRule<true>>(request) : bind_update<cuda::SgdRule<false>>(request);
}

}  // namespace

CudaKernels update_cuda_kernels() {
  return {{&ops::kSumOfSquares, bind_sum},
          {&ops::kClip, bind_clip},
          {&ops::kReport, bind_report},
          {&ops::kAdamW, bind_update<cuda::AdamWRule>},
          {&ops::kLion, bind_update<cuda::LionRule>},
          {&ops::kSgd, bind_sgd}};
}

}  // namespace plimsoll
