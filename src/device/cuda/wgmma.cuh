// Products of a warpgroup (four consecutive warps) by Hopper's tensor cores (PTX ISA, "wgmma"). Each warp has 16 of 64 rows;
// fragments are those of mma.cuh. A tile in shared memory has one or two parts, one after the other, with 64 columns each. A row
// of a part is 128 bytes, whose chunks of 16 bytes are swizzled by the row modulo eight; the address of a part is a multiple of
// 1,024 bytes. Where warpgroups do not multiply together, callers use mma instead.
#pragma once

#include <type_traits>

#include "device/cuda/mma.cuh"
#ifndef __CUDACC__
#include "device/cuda/emulation_products.h"
#endif

namespace plimsoll::cuda {

inline constexpr int kGroupRows = 64, kPartColumns = 64;

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

// The descriptor of a tile of kRows rows, in groups of eight with 1,024 bytes. `next` part: of an operand that has columns in it.
template <int kRows>
__device__ __forceinline__ std::uint64_t tile_descriptor(const void* tile) {
  constexpr std::uint64_t kEightRows = std::uint64_t{1024 >> 4} << 32, kNextPart = std::uint64_t{kRows * 128 >> 4} << 16,
                          kSwizzle128 = std::uint64_t{1} << 62;
#ifdef __CUDACC__
  const std::uint32_t address = shared_address(tile);
#else
  const std::uint32_t address = emulation::tile_address(tile);
#endif
  return kSwizzle128 | kEightRows | kNextPart | (address & 0x3FFFF) >> 4;
}
// The distances in a descriptor to step k of 16 elements of the sum: of an operand whose rows run along the sum, and of others.
template <int kRows>
__device__ constexpr std::uint64_t along_rows(int k) {
  return static_cast<std::uint64_t>(k / 4 * kRows * 128 + k % 4 * 32) >> 4;
}
__device__ constexpr std::uint64_t across_rows(int k) { return static_cast<std::uint64_t>(k * 2048) >> 4; }

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
#define PLIMSOLL_C32(J)                                                                                               \
  PLIMSOLL_C4(J), PLIMSOLL_C4(J + 1), PLIMSOLL_C4(J + 2), PLIMSOLL_C4(J + 3), PLIMSOLL_C4(J + 4), PLIMSOLL_C4(J + 5), \
      PLIMSOLL_C4(J + 6), PLIMSOLL_C4(J + 7)
#define PLIMSOLL_NAMES_32                                                                                                    \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, " \
  "%26, %27, %28, %29, %30, %31"
#define PLIMSOLL_NAMES_64                                                                                                 \
  PLIMSOLL_NAMES_32                                                                                                       \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, " \
  "%55, %56, %57, %58, %59, %60, %61, %62, %63"

// C += A B of 64 rows and 16 steps: A from registers, rows of B's tile along the result. After a product ptxas of CUDA 13.0
// considers the registers of A free, even if a loop reads them again, so they are made anew for each product.
#define PLIMSOLL_PRODUCT_HELD(COLUMNS, TYPE, NAMES, ROWS, TILE, ...)                                                             \
  asm volatile(                                                                                                                  \
      "{.reg .pred adds; setp.eq.b32 adds, 0, 0;\n"                                                                              \
      "wgmma.mma_async.sync.aligned.m64n" COLUMNS "k16.f32." TYPE "." TYPE " {" NAMES "}, {" ROWS "}, " TILE ", adds, 1, 1, 1;}" \
      : __VA_ARGS__                                                                                                              \
      : "r"(a.at[0]), "r"(a.at[1]), "r"(a.at[2]), "r"(a.at[3]), "l"(b))
#define PLIMSOLL_PRODUCT_HELD_64(TYPE) \
  PLIMSOLL_PRODUCT_HELD("64", TYPE, PLIMSOLL_NAMES_32, "%32, %33, %34, %35", "%36", PLIMSOLL_C32(0))
#define PLIMSOLL_PRODUCT_HELD_128(TYPE) \
  PLIMSOLL_PRODUCT_HELD("128", TYPE, PLIMSOLL_NAMES_64, "%64, %65, %66, %67", "%68", PLIMSOLL_C32(0), PLIMSOLL_C32(8))
// C = A B or C += A B of two tiles of shared memory whose rows run along the sum.
#define PLIMSOLL_PRODUCT_SHARED(TYPE)                                                                                      \
  asm volatile(                                                                                                            \
      "{.reg .pred adds; setp.ne.b32 adds, %34, 0;\n"                                                                      \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " {" PLIMSOLL_NAMES_32 "}, %32, %33, adds, 1, 1, 0, 0;}" \
      : PLIMSOLL_C32(0)                                                                                                    \
      : "l"(a), "l"(b), "r"(int{adds}))
#endif

template <class T, int kN>
__device__ __forceinline__ void product(float (&c)[kN][4], Pairs& a, std::uint64_t b) {
  static_assert(kN == 8 || kN == 16);
#ifndef __CUDACC__
  emulation::multiply({.bf16 = std::is_same_v<T, Bf16>, .columns = 8 * kN, .a_held = true, .b = b, .b_transposed = true}, c[0],
                      a.at);
#elif defined(PLIMSOLL_WGMMA)
  if constexpr (std::is_same_v<T, Bf16> && kN == 8) {
    PLIMSOLL_PRODUCT_HELD_64("bf16");
  } else if constexpr (std::is_same_v<T, Bf16>) {
    PLIMSOLL_PRODUCT_HELD_128("bf16");
  } else if constexpr (kN == 8) {
    PLIMSOLL_PRODUCT_HELD_64("f16");
  } else {
    PLIMSOLL_PRODUCT_HELD_128("f16");
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

#ifdef PLIMSOLL_WGMMA
#undef PLIMSOLL_PRODUCT_HELD_64
#undef PLIMSOLL_PRODUCT_HELD_128
#undef PLIMSOLL_PRODUCT_HELD
#undef PLIMSOLL_PRODUCT_SHARED
#undef PLIMSOLL_NAMES_32
#undef PLIMSOLL_NAMES_64
#undef PLIMSOLL_C32
#undef PLIMSOLL_C4
#endif

// Issues C = A B^T: 64 rows of a tile of kRows, and a tile of 64 rows, along kColumns.
template <int kColumns, int kRows, class T>
__device__ __forceinline__ void issue_rows(float (&c)[8][4], const T* a, const T* b) {
  const std::uint64_t of_a = tile_descriptor<kRows>(a), of_b = tile_descriptor<64>(b);
#pragma unroll
  for (int k = 0; k < kColumns / 16; ++k) product<T>(c, of_a + along_rows<kRows>(k), of_b + along_rows<64>(k), k > 0);
}
// Issues C += A B: A from registers, B the 64 rows of a tile.
template <class T, int kN>
__device__ __forceinline__ void issue_pairs(float (&c)[kN][4], Pairs (&a)[4], const T* b) {
  const std::uint64_t columns = tile_descriptor<64>(b);
#pragma unroll
  for (int k = 0; k < 4; ++k) product<T>(c, a[k], columns + across_rows(k));
}
// Makes operands of four steps.
__device__ __forceinline__ void take_rows(Pairs (&rows)[4], const Pair (&a)[8][2]) {
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    rows[k] = {{a[2 * k][0], a[2 * k][1], a[2 * k + 1][0], a[2 * k + 1][1]}};
    hold_registers(rows[k]);
  }
}

// C = A B^T.
template <int kColumns, int kRows, class T>
__device__ __forceinline__ void group_multiply_rows(float (&c)[8][4], const T* a, const T* b) {
  hold_registers(c);
  begin_products();
  issue_rows<kColumns, kRows>(c, a, b);
  end_products();
  hold_registers(c);
}

// C = A B^T and D = E F^T.
template <int kColumns, int kRows, class T>
__device__ __forceinline__ void group_multiply_rows(float (&c)[8][4], const T* a, const T* b, float (&d)[8][4], const T* e,
                                                    const T* f) {
  hold_registers(c);
  hold_registers(d);
  begin_products();
  issue_rows<kColumns, kRows>(c, a, b);
  issue_rows<kColumns, kRows>(d, e, f);
  end_products();
  hold_registers(c);
  hold_registers(d);
}

// C += A B.
template <class T, int kN>
__device__ __forceinline__ void group_multiply_pairs(float (&c)[kN][4], Pairs (&a)[4], const T* b) {
  hold_registers(c);
  begin_products();
  issue_pairs(c, a, b);
  end_products();
  hold_registers(c);
}

}  // namespace plimsoll::cuda
