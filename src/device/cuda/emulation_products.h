// Products of warpgroups (wgmma.cuh) of the emulation. Operands are read through their descriptors. Registers of a product hold
// poison from its issue until the wait for it. An internal error is thrown
// - if a descriptor states no tile of rows of 128 bytes with their swizzle, within the block's shared memory;
// - if an operand was not shown to products before a barrier, or changes before all four warps have waited;
// - if registers of a product are written before the wait, or begin_products does not precede their first product in flight;
// - if lanes or warps of a warpgroup issue different products, or a kernel ends without a wait.
// A write into an operand of the bytes that are already there stays unseen.
#pragma once

#include <cstddef>
#include <cstdint>

namespace plimsoll::cuda::emulation {

// Later launches multiply by warpgroups together, the default, or by single warps as on cards without wgmma.
void multiply_together(bool together);
bool multiplies_together();

// C = A B or C += A B of 64 x 16 and 16 x `columns` elements.
struct Product {
  bool bf16;  // the elements; otherwise they are f16
  unsigned columns;
  bool a_held;             // A is in registers
  std::uint64_t a = 0, b;  // descriptors
  bool a_transposed = false, b_transposed = false, adds = true;

  bool operator==(const Product&) const = default;
};

// The address of a tile within the window of shared memory.
std::uint32_t tile_address(const void* tile);

// The threads that wrote into tiles call it before a barrier. Shared memory counts as shown if all threads of the block called it
// since the barrier before.
void show_to_products();
void begin_products();
// `c`: this lane's columns / 2 sums; `a`: its four pairs, or null.
void multiply(const Product& product, float* c, std::uint32_t* a);
void commit_products();
// Waits for all groups of products except the latest `pending`.
void wait_for_products(unsigned pending);

// Called by the emulation of blocks. A block that had no products costs nothing.
void begin_products_of_block();
void pass_barrier();
void end_products_of_block();

}  // namespace plimsoll::cuda::emulation
