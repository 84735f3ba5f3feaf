// Scratch of products on a GPU, known without a GPU.
#pragma once

#include "ops/matmul/gemm_shape.h"

namespace plimsoll {

// One size for all shapes and budgets, since the library's choice of an algorithm, and thus the bits, depends on it.
inline constexpr Bytes kGemmWorkspace{32LL << 20};

// The workspace and, for a narrow result, a bias of its type: the library adds no other bias to it.
inline Bytes cuda_product_scratch(const GemmShape& shape) {
  const bool casts = shape.bias && shape.result != DType::f32;
  return kGemmWorkspace + Bytes{casts ? shape.n * size_of(shape.result) : 0};
}
inline Bytes cuda_matmul_scratch(const KernelRequest& request) { return cuda_product_scratch(gemm_shape(request)); }

}  // namespace plimsoll
