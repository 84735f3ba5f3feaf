// Products of a warpgroup (four consecutive warps) by Hopper's tensor cores (PTX ISA, "wgmma"). Each warp has 16 of 64 rows;
// fragments are those of mma.cuh. A tile in shared memory has rows of 64 elements of 16 bits, 128 bytes, whose chunks are
// swizzled by the row modulo eight; its address is a multiple of 1,024 bytes. Where warpgroups do not multiply together, callers
// use mma instead.
#pragma once

#include <type_traits>

#include "device/cuda/mma.cuh"
#ifndef __CUDACC__
#include "device/cuda/emulation_products.h"
#endif

namespace plimsoll::cuda {

inline constexpr int kGroupRows = 64;

// Warpgroups multiply together: on Hopper, and in the emulation unless a test chooses otherwise.
#ifndef __CUDACC__
inline bool multiplies_together() { return emulation::multiplies_together(); }
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define PLIMSOLL_WGMMA
__device__ constexpr bool multiplies_together() { return true; }
#else
__device__ constexpr bool multiplies_together() { return false; }
#endif

// Makes this thread's writes and completed asynchronous copies into shared memory visible to products after the next barrier.
__device__ __forceinline__ void show_to_products() {
#ifdef PLIMSOLL_WGMMA
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#elif !defined(__CUDACC__)
  emulation::show_to_products();
#endif
}

// The descriptor of a tile: rows of 128 bytes in groups of eight, 1,024 bytes. From one step of 16 elements of the sum to the
// next, an operand whose rows run along the sum advances by 32 bytes, any other by 16 rows.
__device__ __forceinline__ std::uint64_t tile_descriptor(const void* tile) {
  constexpr std::uint64_t kEightRows = std::uint64_t{1024 >> 4} << 32, kNext = std::uint64_t{1} << 16,
                          kSwizzle128 = std::uint64_t{1} << 62;
#ifdef __CUDACC__
  const std::uint32_t address = shared_address(tile);
#else
  const std::uint32_t address = emulation::tile_address(tile);
#endif
  return kSwizzle128 | kEightRows | kNext | (address & 0x3FFFF) >> 4;
}

// Keeps the compiler from moving accesses to the registers of a product across this point.
template <int kN>
__device__ __forceinline__ void hold_registers([[maybe_unused]] float (&c)[kN][4]) {
#ifdef __CUDACC__
#pragma unroll
  for (int j = 0; j < kN; ++j) {
#pragma unroll
    for (int e = 0; e < 4; ++e) asm volatile("" : "+f"(c[j][e])::"memory");
  }
#endif
}
__device__ __forceinline__ void hold_registers([[maybe_unused]] Pairs& a) {
#ifdef __CUDACC__
#pragma unroll
  for (Pair& pair : a.at) asm volatile("" : "+r"(pair)::"memory");
#endif
}

// Orders accesses of this thread to registers before products that have them.
__device__ __forceinline__ void begin_products() {
#ifdef PLIMSOLL_WGMMA
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#elif !defined(__CUDACC__)
  emulation::begin_products();
#endif
}
__device__ __forceinline__ void commit_products() {
#ifdef PLIMSOLL_WGMMA
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#elif !defined(__CUDACC__)
  emulation::commit_products();
#endif
}
// Waits for all groups of products except the latest kPending. Until then nothing touches registers and operands of a product.
template <int kPending>
__device__ __forceinline__ void wait_for_products() {
#ifdef PLIMSOLL_WGMMA
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
#elif !defined(__CUDACC__)
  emulation::wait_for_products(kPending);
#endif
}
__device__ __forceinline__ void end_products() {
  commit_products();
  wait_for_products<0>();
}

#ifdef PLIMSOLL_WGMMA
#define PLIMSOLL_C4(J) "+f"(c[J][0]), "+f"(c[J][1]), "+f"(c[J][2]), "+f"(c[J][3])
#define PLIMSOLL_C \
  PLIMSOLL_C4(0), PLIMSOLL_C4(1), PLIMSOLL_C4(2), PLIMSOLL_C4(3), PLIMSOLL_C4(4), PLIMSOLL_C4(5), PLIMSOLL_C4(6), PLIMSOLL_C4(7)
#define PLIMSOLL_C_NAMES                                                                                                      \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, " \
  "%26, %27, %28, %29, %30, %31}"

// C += A B, 64 x 64 x 16: A from registers, rows of B's tile along the result. After a product ptxas of CUDA 13.0 considers the
// registers of A free, even if a loop reads them again, so they are made anew for each product.
#define PLIMSOLL_PRODUCT_HELD(TYPE)                                                    \
  asm volatile(                                                                        \
      "{.reg .pred adds; setp.eq.b32 adds, 0, 0;\n"                                    \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " " PLIMSOLL_C_NAMES \
      ", {%32, %33, %34, %35}, %36, adds, 1, 1, 1;}"                                   \
      : PLIMSOLL_C                                                                     \
      : "r"(a.at[0]), "r"(a.at[1]), "r"(a.at[2]), "r"(a.at[3]), "l"(b))
// The same for two tiles of shared memory whose rows run along the sum; without adding, C = A B.
#define PLIMSOLL_PRODUCT_SHARED(TYPE)                                                                                   \
  asm volatile(                                                                                                         \
      "{.reg .pred adds; setp.ne.b32 adds, %34, 0;\n"                                                                   \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " " PLIMSOLL_C_NAMES ", %32, %33, adds, 1, 1, 0, 0;}" \
      : PLIMSOLL_C                                                                                                      \
      : "l"(a), "l"(b), "r"(int{adds}))

#endif

template <class T>
__device__ __forceinline__ void product(float (&c)[8][4], Pairs& a, std::uint64_t b) {
#ifndef __CUDACC__
  emulation::multiply({.bf16 = std::is_same_v<T, Bf16>, .columns = 64, .a_held = true, .b = b, .b_transposed = true}, c[0], a.at);
#elif defined(PLIMSOLL_WGMMA)
  if constexpr (std::is_same_v<T, Bf16>) {
    PLIMSOLL_PRODUCT_HELD("bf16");
  } else {
    PLIMSOLL_PRODUCT_HELD("f16");
  }
#endif
}
template <class T>
__device__ __forceinline__ void product(float (&c)[8][4], std::uint64_t a, std::uint64_t b, bool adds) {
#ifndef __CUDACC__
  emulation::multiply({.bf16 = std::is_same_v<T, Bf16>, .columns = 64, .a_held = false, .a = a, .b = b, .adds = adds}, c[0],
                      nullptr);
#elif defined(PLIMSOLL_WGMMA)
  if constexpr (std::is_same_v<T, Bf16>) {
    PLIMSOLL_PRODUCT_SHARED("bf16");
  } else {
    PLIMSOLL_PRODUCT_SHARED("f16");
  }
#endif
}

#undef PLIMSOLL_PRODUCT_HELD
#undef PLIMSOLL_PRODUCT_SHARED
#undef PLIMSOLL_C_NAMES
#undef PLIMSOLL_C
#undef PLIMSOLL_C4

// C = A B^T of 64 rows of two tiles.
template <class T>
__device__ __forceinline__ void group_multiply_rows(float (&c)[8][4], const T* a, const T* b) {
  const std::uint64_t of_a = tile_descriptor(a), of_b = tile_descriptor(b);
  hold_registers(c);
  begin_products();
#pragma unroll
  for (int k = 0; k < 4; ++k) product<T>(c, of_a + k * (32 >> 4), of_b + k * (32 >> 4), k > 0);
  end_products();
  hold_registers(c);
}

// C = A B^T and D = E F^T.
template <class T>
__device__ __forceinline__ void group_multiply_rows(float (&c)[8][4], const T* a, const T* b, float (&d)[8][4], const T* e,
                                                    const T* f) {
  hold_registers(c);
  hold_registers(d);
  begin_products();
  const std::uint64_t of_a = tile_descriptor(a), of_b = tile_descriptor(b), of_e = tile_descriptor(e), of_f = tile_descriptor(f);
#pragma unroll
  for (int k = 0; k < 4; ++k) product<T>(c, of_a + k * (32 >> 4), of_b + k * (32 >> 4), k > 0);
#pragma unroll
  for (int k = 0; k < 4; ++k) product<T>(d, of_e + k * (32 >> 4), of_f + k * (32 >> 4), k > 0);
  end_products();
  hold_registers(c);
  hold_registers(d);
}

// C += A B: A from registers, B the 64 rows of a tile.
template <class T>
__device__ __forceinline__ void group_multiply_pairs(float (&c)[8][4], const Pair (&a)[8][2], const T* b) {
  const std::uint64_t columns = tile_descriptor(b);
  Pairs rows[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    rows[k] = {{a[2 * k][0], a[2 * k][1], a[2 * k + 1][0], a[2 * k + 1][1]}};
    hold_registers(rows[k]);
  }
  hold_registers(c);
  begin_products();
#pragma unroll
  for (int k = 0; k < 4; ++k) product<T>(c, rows[k], columns + k * (2048 >> 4));
  end_products();
  hold_registers(c);
}

}  // namespace plimsoll::cuda
