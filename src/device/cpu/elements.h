// Elements of a caller's array, fp32, bf16 or fp16: for kernels that take either width row by row.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace plimsoll::cpu {

struct ConstElements {
  const std::byte* data;
  DType type;

  ConstElements(const float* p) : data(reinterpret_cast<const std::byte*>(p)), type(DType::f32) {}  // NOLINT
  ConstElements(const std::byte* p, DType dtype) : data(p), type(dtype) {}
  ConstElements from(std::int64_t element) const { return {data + element * size_of(type), type}; }
};

struct Elements {
  std::byte* data;
  DType type;

  Elements(float* p) : data(reinterpret_cast<std::byte*>(p)), type(DType::f32) {}  // NOLINT
  Elements(std::byte* p, DType dtype) : data(p), type(dtype) {}
  Elements from(std::int64_t element) const { return {data + element * size_of(type), type}; }
  operator ConstElements() const { return {data, type}; }  // NOLINT
};

}  // namespace plimsoll::cpu
