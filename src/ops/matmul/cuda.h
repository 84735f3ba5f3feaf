// Scratch of products on a GPU, known without asking one.
#pragma once

#include "ops/matmul/gemm_shape.h"

namespace plimsoll {

// One for all shapes and budgets, since the algorithm that the library chooses, and with it the bits, depends on it.
inline constexpr Bytes kGemmWorkspace{32LL << 20};

// The workspace, and a bias in the type of a narrow result, which is the only one that the library adds there.
inline Bytes cuda_matmul_scratch(const KernelRequest& request) {
  const GemmShape shape = gemm_shape(request);
  const bool casts = shape.bias && shape.result != DType::f32;
  return kGemmWorkspace + Bytes{casts ? shape.n * size_of(shape.result) : 0};
}

}  // namespace plimsoll
