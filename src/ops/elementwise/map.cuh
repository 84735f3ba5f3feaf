// out[i] = f(in[i]...) on a GPU: fp32 arithmetic on values from and to memory of fp32, bf16 or fp16; `out` may equal any input of
// its width.
#pragma once

#include "device/cuda/kernels.cuh"

namespace plimsoll::cuda {

inline constexpr int kMapThreads = 256;

// Elements that a thread takes at once if the addresses allow it.
template <class... T>
inline constexpr int kMapPack = ((sizeof(T) <= 2) && ...) ? 8 : 4;

template <int kElements, class F, class Out, class... In>
__global__ void __launch_bounds__(kMapThreads) map_kernel(std::int64_t n, F f, Out* out, const In*... in) {
  const std::int64_t packs = n / kElements;
  for (std::int64_t i = thread_of_grid(); i < packs; i += threads_of_grid()) {
    Pack<Out, kElements> result;
    [&](const Pack<In, kElements>... from) {
#pragma unroll
      for (int e = 0; e < kElements; ++e) result.at[e] = narrow<Out>(f(widen(from.at[e])...));
    }(reinterpret_cast<const Pack<In, kElements>*>(in)[i]...);
    reinterpret_cast<Pack<Out, kElements>*>(out)[i] = result;
  }
  const std::int64_t rest = packs * kElements + thread_of_grid();
  if (rest < n) out[rest] = narrow<Out>(f(widen(in[rest])...));
}

template <int kElements, class T>
bool begins_a_pack(const T* data) {
  return reinterpret_cast<std::uintptr_t>(data) % (kElements * sizeof(T)) == 0;
}

// F: a device functor of as many floats as there are inputs.
template <class F, class Out, class... In>
void map(std::int64_t n, F f, void* stream, Out* out, const In*... in) {
  if (n == 0) return;
  constexpr int kElements = kMapPack<Out, In...>;
  if (begins_a_pack<kElements>(out) && (begins_a_pack<kElements>(in) && ...)) {
    launch(map_kernel<kElements, F, Out, In...>, grid_over(n, kMapThreads, kMapThreads * kElements), stream, n, f, out, in...);
  } else {
    launch(map_kernel<1, F, Out, In...>, grid_over(n, kMapThreads, kMapThreads), stream, n, f, out, in...);
  }
}

struct Same {
  __device__ float operator()(float x) const { return x; }
};
struct Add {
  __device__ float operator()(float a, float b) const { return a + b; }
};

}  // namespace plimsoll::cuda
