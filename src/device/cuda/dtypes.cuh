// The element types of kernels, chosen by the dtype of a value.
#pragma once

#include "device/cuda/kernels.cuh"
#include "tensor/dtype.h"

namespace plimsoll::cuda {

// Calls f with a zero of the type of fp32, bf16 or fp16 elements.
template <class F>
auto with_type(DType dtype, F f) {
  if (dtype == DType::bf16) return f(Bf16{});
  if (dtype == DType::f16) return f(F16{});
  return f(0.0f);
}

}  // namespace plimsoll::cuda
