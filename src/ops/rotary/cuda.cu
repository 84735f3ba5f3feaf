#include <algorithm>

#include "ops/cuda_kernel.h"
#include "ops/reduce/row.cuh"
#include "ops/rotary/angles.cuh"
#include "ops/rotary/frequencies.h"
#include "ops/rotary/rotary.h"

namespace plimsoll {
namespace cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kPairs = 128;  // pairs of a launch; frequencies travel with it
constexpr int kHeads = 4;    // heads of a thread, for each of which it rotates the same pairs

struct Rotary {
  std::int64_t rows, tokens, heads, head_size;
  std::int64_t pairs;             // of a head
  int first, count;               // pairs of this launch
  const std::int32_t* positions;  // by row; null: the token's index
  bool inverse;
  float factor;
  float inverse_frequencies[kPairs];
};

// The numbers of kElements pairs.
template <int kElements>
struct Pairs {
  Pack<float, kElements> a, b;
};

// The numbers a of the pairs lie `apart` before the numbers b, or next to them.
template <int kElements, bool kInterleaved, class T>
__device__ __forceinline__ Pairs<kElements> load_pairs(const T* head, std::int64_t pair, std::int64_t apart) {
  if constexpr (!kInterleaved) {
    return {load_floats<kElements>(head + pair), load_floats<kElements>(head + apart + pair)};
  }
  const auto low = load_floats<kElements>(head + 2 * pair), high = load_floats<kElements>(head + 2 * pair + kElements);
  Pairs<kElements> pairs;
#pragma unroll
  for (int e = 0; e < kElements; ++e) {
    pairs.a.at[e] = 2 * e < kElements ? low.at[2 * e % kElements] : high.at[2 * e % kElements];
    pairs.b.at[e] = 2 * e + 1 < kElements ? low.at[(2 * e + 1) % kElements] : high.at[(2 * e + 1) % kElements];
  }
  return pairs;
}

template <int kElements, bool kInterleaved, class T>
__device__ __forceinline__ void store_pairs(const Pairs<kElements>& pairs, T* head, std::int64_t pair, std::int64_t apart) {
  if constexpr (!kInterleaved) {
    store_floats(pairs.a, head + pair);
    store_floats(pairs.b, head + apart + pair);
  } else {
    Pack<float, kElements> low, high;
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      low.at[e] = e % 2 == 0 ? pairs.a.at[e / 2] : pairs.b.at[e / 2];
      high.at[e] = (e + kElements) % 2 == 0 ? pairs.a.at[(e + kElements) / 2] : pairs.b.at[(e + kElements) / 2];
    }
    store_floats(low, head + 2 * pair);
    store_floats(high, head + 2 * pair + kElements);
  }
}

// A thread rotates kElements pairs of some heads of a row. out may be x.
template <int kElements, bool kInterleaved, class T>
__global__ void __launch_bounds__(kThreads) rotary_kernel(const __grid_constant__ Rotary r, const T* x, T* out) {
  const int packs = r.count / kElements, of_row = static_cast<int>((r.heads + kHeads - 1) / kHeads) * packs;
  for (std::int64_t i = thread_of_grid(); i < r.rows * of_row; i += threads_of_grid()) {
    const std::int64_t row = i / of_row;
    const int item = static_cast<int>(i - row * of_row), pair = item % packs * kElements, head = item / packs * kHeads;
    const auto position =
        static_cast<float>(r.positions == nullptr ? static_cast<std::int32_t>(row % r.tokens) : r.positions[row]);
    Pack<float, kElements> cosine, sine;
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      const Turn turn = turn_by(__fmul_rn(position, r.inverse_frequencies[pair + e]));
      cosine.at[e] = widen(narrow<T>(turn.cosine * r.factor));
      sine.at[e] = widen(narrow<T>(turn.sine * r.factor));
      if (r.inverse) sine.at[e] = -sine.at[e];
    }
    const int heads = r.heads - head < kHeads ? static_cast<int>(r.heads - head) : kHeads;
    const std::int64_t begin = (row * r.heads + head) * r.head_size;
    Pairs<kElements> from[kHeads] = {};
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      if (h < heads) from[h] = load_pairs<kElements, kInterleaved>(x + begin + h * r.head_size, r.first + pair, r.pairs);
    }
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      if (h >= heads) continue;
      Pairs<kElements> to;
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        const float a = from[h].a.at[e], b = from[h].b.at[e];
        to.a.at[e] = a * cosine.at[e] - b * sine.at[e];
        to.b.at[e] = b * cosine.at[e] + a * sine.at[e];
      }
      store_pairs<kElements, kInterleaved>(to, out + begin + h * r.head_size, r.first + pair, r.pairs);
    }
  }
}

// Copies the numbers of each head that are in no pair.
template <class T>
__global__ void __launch_bounds__(kThreads)
    copy_rest_kernel(std::int64_t heads, std::int64_t head_size, std::int64_t rotated, const T* x, T* out) {
  const std::int64_t rest = head_size - rotated;
  for (std::int64_t i = thread_of_grid(); i < heads * rest; i += threads_of_grid()) {
    const std::int64_t at = i / rest * head_size + rotated + i % rest;
    out[at] = x[at];
  }
}

template <int kElements, bool kInterleaved, class T>
void rotate(const Rotary& r, const T* x, T* out, void* stream) {
  const std::int64_t items = r.rows * ((r.heads + kHeads - 1) / kHeads) * (r.count / kElements);
  launch(rotary_kernel<kElements, kInterleaved, T>, grid_over(items, kThreads, kThreads), stream, r, x, out);
}

template <class T>
void rotate_strip(const Rotary& r, bool interleaved, const T* x, T* out, void* stream) {
  constexpr int kElements = 4;
  const bool packs = r.pairs % kElements == 0 && r.head_size % kElements == 0;
  if (interleaved) return packs ? rotate<kElements, true>(r, x, out, stream) : rotate<1, true>(r, x, out, stream);
  packs ? rotate<kElements, false>(r, x, out, stream) : rotate<1, false>(r, x, out, stream);
}

template <class T>
void rotate_all(Rotary r, bool interleaved, const std::vector<float>& inverse_frequencies, const T* x, T* out, void* stream) {
  for (std::int64_t first = 0; first < r.pairs; first += kPairs) {
    r.first = static_cast<int>(first);
    r.count = static_cast<int>(std::min<std::int64_t>(kPairs, r.pairs - first));
    std::copy_n(inverse_frequencies.begin() + first, r.count, r.inverse_frequencies);
    rotate_strip(r, interleaved, x, out, stream);
  }
  const std::int64_t heads = r.rows * r.heads, rest = r.head_size - 2 * r.pairs;
  if (rest == 0 || x == out) return;
  launch(copy_rest_kernel<T>, grid_over(heads * rest, kThreads, kThreads), stream, heads, r.head_size, 2 * r.pairs, x, out);
}

}  // namespace
}  // namespace cuda

namespace {

std::unique_ptr<Kernel> bind(const KernelRequest& request) {
  const auto& a = request.attributes->as<ops::RotaryAttributes>();
  const ops::RotaryTable table = ops::rotary_table(a);
  const Shape& x = request.inputs[0].shape;
  const cuda::Rotary rotary{.rows = x[0] * x[1],
                            .tokens = x[1],
                            .heads = x[2] / a.head_size,
                            .head_size = a.head_size,
                            .pairs = a.rotated / 2,
                            .inverse = a.inverse,
                            .factor = table.attention_factor};
  const auto bind_to = [&]<class T>(T) {
    return make_kernel([rotary, given = a.positions, interleaved = a.interleaved,
                        frequencies = table.inverse_frequencies](const KernelCall& call) {
      cuda::Rotary r = rotary;
      r.positions = given ? call.in<std::int32_t>(1) : nullptr;
      cuda::rotate_all(r, interleaved, frequencies, call.in<T>(0), call.out<T>(0), call.stream);
    });
  };
  if (request.inputs[0].dtype == DType::bf16) return bind_to(cuda::Bf16{});
  if (request.inputs[0].dtype == DType::f16) return bind_to(F16{});
  return bind_to(0.0f);
}

}  // namespace

CudaKernels rotary_cuda_kernels() { return {{&ops::kRotary, bind}}; }

}  // namespace plimsoll
