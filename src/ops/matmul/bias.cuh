// The bias of a product through cuBLASLt.
#pragma once

#include "ops/elementwise/map.cuh"
#include "ops/matmul/cuda.h"

namespace plimsoll::cuda {

// The third input in the result's type, converted after the workspace in the scratch if necessary; null without a bias.
inline const void* bias_of_product(const GemmShape& shape, const KernelCall& call) {
  if (!shape.bias || shape.result == DType::f32) return shape.bias ? call.in(2) : nullptr;
  std::byte* narrowed = call.scratch + kGemmWorkspace.n;
  const auto cast = [&]<class T>(T* to) { map(shape.n, Same{}, call.stream, to, call.in(2)); };
  shape.result == DType::bf16 ? cast(reinterpret_cast<Bf16*>(narrowed)) : cast(reinterpret_cast<F16*>(narrowed));
  return narrowed;
}

}  // namespace plimsoll::cuda
