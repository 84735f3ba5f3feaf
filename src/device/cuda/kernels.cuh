// The basis of our GPU kernels. The same source is compiled by nvcc and, over emulation.h, by a C++ compiler, so that every
// kernel runs in tests without a GPU. Kernels sum in an order that depends on shapes alone, without atomics on floats.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/philox.h"
#include "tensor/half.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "device/cuda/errors.cuh"
#else
#include "device/cuda/emulation.h"
#include "device/cuda/emulation_streams.h"
#endif

namespace plimsoll::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xFFFFFFFFu;
// The most blocks that go over an array or over rows: enough for all multiprocessors of a GPU, but independent of the GPU,
// because the elements that a block sums depend on it.
inline constexpr std::int64_t kMostBlocks = 1 << 16;

// An element of bf16 in memory, as on the CPU.
using Bf16 = std::uint16_t;

__host__ __device__ __forceinline__ float widen(float x) { return x; }
__host__ __device__ __forceinline__ float widen(Bf16 x) { return widen_bf16(x); }
__host__ __device__ __forceinline__ float widen(F16 x) {
#ifdef __CUDA_ARCH__
  return __half2float(__ushort_as_half(static_cast<std::uint16_t>(x)));
#else
  return widen_f16(static_cast<std::uint16_t>(x));
#endif
}

// Rounds to nearest even.
template <class T>
__host__ __device__ __forceinline__ T narrow(float x);
template <>
__host__ __device__ __forceinline__ float narrow<float>(float x) {
  return x;
}
template <>
__host__ __device__ __forceinline__ Bf16 narrow<Bf16>(float x) {
#ifdef __CUDA_ARCH__
  return __bfloat16_as_ushort(__float2bfloat16_rn(x));
#else
  return narrow_bf16(x);
#endif
}
template <>
__host__ __device__ __forceinline__ F16 narrow<F16>(float x) {
#ifdef __CUDA_ARCH__
  return static_cast<F16>(__half_as_ushort(__float2half_rn(x)));
#else
  return static_cast<F16>(narrow_f16(x));
#endif
}

// Consecutive elements that one instruction moves: 16 bytes by default, at an address that is a multiple of the size.
template <class T, int kElements = 16 / sizeof(T)>
struct alignas(sizeof(T) * kElements) Pack {
  T at[kElements];
};

template <class T>
__device__ __forceinline__ Pack<T> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T>*>(from);
}
template <int kElements, class T>
__device__ __forceinline__ Pack<T, kElements> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, kElements>*>(from);
}
template <class T, int kElements>
__device__ __forceinline__ void store_pack(const Pack<T, kElements>& pack, T* to) {
  *reinterpret_cast<Pack<T, kElements>*>(to) = pack;
}

// The block's dynamic shared memory.
template <class T>
__device__ __forceinline__ T* shared_memory() {
#ifdef __CUDACC__
  extern __shared__ __align__(1024) std::byte dynamic_shared_memory[];
  return reinterpret_cast<T*>(dynamic_shared_memory);
#else
  return reinterpret_cast<T*>(emulation::shared_memory());
#endif
}

struct Grid {
  dim3 blocks, threads;
  std::size_t shared_bytes = 0;  // dynamic shared memory; above 48 KiB: see allow_shared
};

// Launches a kernel on a stream (cuda::Stream::handle). Errors of the launch itself throw E-CUDA-DEVICE.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), const Grid& grid, [[maybe_unused]] void* stream, Arguments... arguments) {
#ifdef __CUDACC__
  kernel<<<grid.blocks, grid.threads, grid.shared_bytes, static_cast<cudaStream_t>(stream)>>>(Parameters(arguments)...);
  check(cudaGetLastError(), "launch of a kernel");
#else
  emulation::check_launch(reinterpret_cast<const void*>(kernel), grid.blocks, grid.threads, grid.shared_bytes);
  emulation::submit(
      stream, [=] { emulation::run(grid.blocks, grid.threads, grid.shared_bytes, [&] { kernel(Parameters(arguments)...); }); });
#endif
}

// Called when a kernel is bound that may use more than 48 KiB of dynamic shared memory. `bytes`: the most that any launch of the
// kernel uses, since the latest call counts for all.
template <class... Parameters>
void allow_shared([[maybe_unused]] void (*kernel)(Parameters...), [[maybe_unused]] std::size_t bytes) {
#ifdef __CUDACC__
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)), "shared memory");
#else
  emulation::allow_shared(reinterpret_cast<const void*>(kernel), bytes);
#endif
}

// Blocks of `threads` for `items`, at most kMostBlocks: kernels go on in steps of the whole grid.
inline Grid grid_over(std::int64_t items, int threads, std::int64_t items_per_block) {
  std::int64_t blocks = (items + items_per_block - 1) / items_per_block;
  blocks = blocks < 1 ? 1 : blocks > kMostBlocks ? kMostBlocks : blocks;
  return {{static_cast<unsigned>(blocks), 1, 1}, {static_cast<unsigned>(threads), 1, 1}, 0};
}

__device__ __forceinline__ std::int64_t thread_of_grid() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ std::int64_t threads_of_grid() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }
__device__ __forceinline__ unsigned lane_of_warp() { return threadIdx.x % kWarp; }
__device__ __forceinline__ unsigned warp_of_block() { return threadIdx.x / kWarp; }

// The sum over all lanes, in all lanes: partners add the same two numbers, so that all lanes have the same bits.
template <class T>
__device__ __forceinline__ T warp_sum(T value) {
#pragma unroll
  for (unsigned mask = kWarp / 2; mask > 0; mask /= 2) value += __shfl_xor_sync(kAllLanes, value, mask);
  return value;
}
template <class T>
__device__ __forceinline__ T warp_max(T value) {
#pragma unroll
  for (unsigned mask = kWarp / 2; mask > 0; mask /= 2) {
    const T other = __shfl_xor_sync(kAllLanes, value, mask);
    value = other > value ? other : value;
  }
  return value;
}

// The sum over all threads of a one-dimensional block, in all threads. All threads call it.
template <class T>
__device__ __forceinline__ T block_sum(T value) {
  __shared__ T of_warps[kWarp];
  value = warp_sum(value);
  if (blockDim.x <= kWarp) return value;
  if (lane_of_warp() == 0) of_warps[warp_of_block()] = value;
  __syncthreads();
  const T mine = lane_of_warp() < blockDim.x / kWarp ? of_warps[lane_of_warp()] : T(0);
  value = warp_sum(mine);
  __syncthreads();
  return value;
}

template <class T>
__device__ __forceinline__ T block_max(T value) {
  __shared__ T of_warps[kWarp];
  value = warp_max(value);
  if (blockDim.x <= kWarp) return value;
  if (lane_of_warp() == 0) of_warps[warp_of_block()] = value;
  __syncthreads();
  value = warp_max(of_warps[lane_of_warp() < blockDim.x / kWarp ? lane_of_warp() : 0]);
  __syncthreads();
  return value;
}

// Word i % 4. An index known only at run time would put the words into local memory.
__device__ __forceinline__ std::uint32_t word_of(const PhiloxWords& words, std::uint32_t i) {
  const std::uint32_t even = i & 2 ? words[2] : words[0], odd = i & 2 ? words[3] : words[1];
  return i & 1 ? odd : even;
}

}  // namespace plimsoll::cuda
