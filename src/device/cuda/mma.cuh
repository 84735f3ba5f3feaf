// Products of 16-bit matrices with fp32 sums by the tensor cores, by single warps, with fragments from shared memory and
// asynchronous copies into it. For GPUs of sm_80 and later; the emulation uses exchanges of lanes.
//
// A fragment is the part of a matrix in a lane, in pairs of neighbouring elements. With g = lane / 4 and q = lane % 4:
//   A, 16 x 16: rows g, g + 8, g, g + 8; columns 2q and 2q + 1, of the last two pairs + 8
//   B, 16 x 8:  rows 2q and 2q + 1, of the second pair + 8; column g
//   C, 16 x 8:  row g, and of the last two floats g + 8; columns 2q and 2q + 1
#pragma once

#include <type_traits>

#include "device/cuda/kernels.cuh"

namespace plimsoll::cuda {

// Two consecutive elements, the first in the lower half.
using Pair = std::uint32_t;

struct Pairs {
  Pair at[4];
};

template <class T>
__device__ __forceinline__ Pair narrow_pair(float low, float high) {
#ifdef __CUDACC__
  Pair pair;
  if constexpr (std::is_same_v<T, Bf16>) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  }
  return pair;
#else
  return static_cast<std::uint16_t>(narrow<T>(low)) | Pair{static_cast<std::uint16_t>(narrow<T>(high))} << 16;
#endif
}

// 2^x to two units in the last place, like exp2f; subnormal results are 0.
__device__ __forceinline__ float fast_exp2(float x) {
#ifdef __CUDACC__
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return std::exp2(x);
#endif
}

#ifdef __CUDACC__
__device__ __forceinline__ std::uint32_t shared_address(const void* shared) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
}
#endif

// Loads four 8 x 8 matrices from shared memory; their rows are 16 bytes. Lane l passes the address of row l % 8 of matrix l / 8.
// It gets elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4 of each matrix or, transposed, of column l / 4.
template <bool kTransposed, class T>
__device__ __forceinline__ Pairs load_matrices(const T* row) {
  Pairs m;
#ifdef __CUDACC__
  const std::uint32_t address = shared_address(row);
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m.at[0]), "=r"(m.at[1]), "=r"(m.at[2]), "=r"(m.at[3])
                 : "r"(address));
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m.at[0]), "=r"(m.at[1]), "=r"(m.at[2]), "=r"(m.at[3])
                 : "r"(address));
  }
#else
  const std::byte* rows = emulation::exchange(&row, sizeof row);
  const auto element = [&](unsigned lane, unsigned column) {
    const T* from;
    std::memcpy(&from, rows + lane * emulation::kLaneBytes, sizeof from);
    return Pair{static_cast<std::uint16_t>(from[column])};
  };
  const unsigned major = emulation::lane() / 4, minor = emulation::lane() % 4 * 2;
  for (unsigned i = 0; i < 4; ++i) {
    m.at[i] = kTransposed ? element(8 * i + minor, major) | element(8 * i + minor + 1, major) << 16
                          : element(8 * i + major, minor) | element(8 * i + major, minor + 1) << 16;
  }
#endif
  return m;
}

#ifndef __CUDACC__
namespace emulation {

// Products of rounded operands are exact in fp32, and the sum is rounded once.
template <class T>
void mma(float (&c)[4], const Pairs& a, Pair b0, Pair b1) {
  const Pair mine[6] = {a.at[0], a.at[1], a.at[2], a.at[3], b0, b1};
  const std::byte* lanes = exchange(mine, sizeof mine);
  const auto element = [&](unsigned lane, unsigned pair, unsigned half) {
    T x;
    std::memcpy(&x, lanes + lane * kLaneBytes + pair * sizeof(Pair) + half * sizeof x, sizeof x);
    return widen(x);
  };
  const unsigned g = lane() / 4, q = lane() % 4;
  for (unsigned i = 0; i < 4; ++i) {
    double sum = c[i];
    for (unsigned k = 0; k < 16; ++k) {
      const unsigned of_pair = k % 8 / 2, column = 2 * q + i % 2;
      sum += double{element(4 * g + of_pair, 2 * (k / 8) + i / 2, k % 2)} * element(4 * column + of_pair, 4 + k / 8, k % 2);
    }
    c[i] = static_cast<float>(sum);
  }
}

}  // namespace emulation
#endif

// C += A B.
template <class T>
__device__ __forceinline__ void mma(float (&c)[4], const Pairs& a, Pair b0, Pair b1) {
#ifdef __CUDACC__
  if constexpr (std::is_same_v<T, Bf16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.at[0]), "r"(a.at[1]), "r"(a.at[2]), "r"(a.at[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.at[0]), "r"(a.at[1]), "r"(a.at[2]), "r"(a.at[3]), "r"(b0), "r"(b1));
  }
#else
  emulation::mma<T>(c, a, b0, b1);
#endif
}

// Begins a copy of kBytes (4, or 16 without the first-level cache) from global to shared memory, complete after wait_for_copies.
// With `nothing` it writes zeros and does not read `from`.
template <int kBytes>
__device__ __forceinline__ void copy_later(void* to, const void* from, bool nothing) {
  static_assert(kBytes == 4 || kBytes == 16);
#ifdef __CUDACC__
  const std::uint32_t address = shared_address(to), bytes = nothing ? 0 : kBytes;
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(from), "r"(bytes) : "memory");
  }
#else
  emulation::copy_later(to, nothing ? nullptr : from, kBytes);
#endif
}

// Makes a group of all copies since the last call.
__device__ __forceinline__ void commit_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  emulation::commit_copies();
#endif
}

// Waits for all groups of this thread except the latest kPending. Copies of other threads are complete after a barrier.
template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#else
  emulation::wait_for_copies(kPending);
#endif
}

}  // namespace plimsoll::cuda
