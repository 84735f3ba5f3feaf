// The CUDA of kernels.cuh on a CPU, for tests. Blocks run one after the other; the threads of a block take turns at barriers and
// warp-wide exchanges, in either order. The emulation shows the results and accesses of a kernel, and a barrier that not all
// threads reach. It shows neither races within a turn nor speed. A process has one launch at a time.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};

extern dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace plimsoll::cuda::emulation {

// Launches throw an internal error if a GPU would refuse them, or if a warp is not whole. More dynamic shared memory than
// kPlainShared needs a call of allow_shared; the latest one for a kernel counts.
inline constexpr std::size_t kPlainShared = 48 << 10;
void allow_shared(const void* kernel, std::size_t bytes);
void check_launch(const void* kernel, dim3 grid, dim3 block, std::size_t shared_bytes);

// Calls `body` for every thread of every block. Throws an internal error if threads of a block wait for each other forever.
void run(dim3 grid, dim3 block, std::size_t shared_bytes, const std::function<void()>& body);

// Shared memory of the running launch, poisoned before each block.
std::byte* shared_memory();
std::span<std::byte> shared_bytes();
void sync_threads();
// Exchanges at most kLaneBytes per lane within a warp. Returns the bytes of all 32 lanes, valid until the thread's next but one
// exchange.
inline constexpr std::size_t kLaneBytes = 32;
const std::byte* exchange(const void* mine, std::size_t bytes);
unsigned lane();

// The number of the running thread in its block, and of the block's threads.
std::size_t thread_of_block();
std::size_t threads_of_block();
// Lanes of a warp wait for each other; the last one does the work first.
void meet_in_warp(const std::function<void()>& work);

// Asynchronous copies of the running thread into shared memory. The destination is poisoned until the thread waits for all but
// the latest `pending` groups. A null `from` means zeros.
void copy_later(void* to, const void* from, std::size_t bytes);
void commit_copies();
void wait_for_copies(unsigned pending);

// Later launches start and resume the threads of a block from the last to the first.
void reverse_turns(bool reversed);

template <class T>
T shuffle(T value, unsigned source) {
  static_assert(sizeof(T) <= kLaneBytes);
  T result;
  std::memcpy(&result, exchange(&value, sizeof(T)) + source * kLaneBytes, sizeof(T));
  return result;
}

}  // namespace plimsoll::cuda::emulation

inline void __syncthreads() { plimsoll::cuda::emulation::sync_threads(); }
inline void __syncwarp() { plimsoll::cuda::emulation::shuffle(0, 0); }

template <class T>
T __shfl_sync(unsigned, T value, unsigned source) {
  return plimsoll::cuda::emulation::shuffle(value, source);
}
template <class T>
T __shfl_xor_sync(unsigned, T value, unsigned mask) {
  return plimsoll::cuda::emulation::shuffle(value, plimsoll::cuda::emulation::lane() ^ mask);
}

// Atomics on integers: threads take turns.
inline int atomicAdd(int* to, int value) { return std::exchange(*to, *to + value); }
inline int atomicMin(int* to, int value) { return std::exchange(*to, value < *to ? value : *to); }

// The intrinsics that kernels call by name. CUDA's results differ in the last bits.
inline double __dmul_rn(double a, double b) { return a * b; }
inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
// No compiler contracts these with one another or with other operations.
float __fmul_rn(float a, float b);
float __fadd_rn(float a, float b);
float __fsub_rn(float a, float b);
