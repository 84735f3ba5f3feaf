// Elements of a caller's array, fp32, bf16 or fp16: for kernels that take either width row by row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tensor/dtype.h"

namespace plimsoll::cpu {

// `Byte` is std::byte or const std::byte.
template <class Byte>
struct ElementsOf {
  template <class T>
  using Like = std::conditional_t<std::is_const_v<Byte>, const T, T>;

  Byte* data;
  DType type;

  ElementsOf(Like<float>* p) : data(reinterpret_cast<Byte*>(p)), type(DType::f32) {}  // NOLINT: a pointer is all that it is
  ElementsOf(Byte* p, DType dtype) : data(p), type(dtype) {}
  operator ElementsOf<const Byte>() const { return {data, type}; }  // NOLINT

  ElementsOf from(std::int64_t element) const { return {data + element * size_of(type), type}; }
  // The elements as that type, which they have.
  template <class T>
  Like<T>* as() const {
    return reinterpret_cast<Like<T>*>(data);
  }
};

using Elements = ElementsOf<std::byte>;
using ConstElements = ElementsOf<const std::byte>;

}  // namespace plimsoll::cpu
