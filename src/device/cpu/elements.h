// Elements of an array of fp32, bf16 or fp16, for kernels that take any of these types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tensor/dtype.h"
#include "tensor/half.h"

namespace plimsoll::cpu {

// `Byte` is std::byte or const std::byte.
template <class Byte>
struct ElementsOf {
  template <class T>
  using Like = std::conditional_t<std::is_const_v<Byte>, const T, T>;

  Byte* data;
  DType type;

  ElementsOf(Like<float>* p) : ElementsOf(reinterpret_cast<Byte*>(p), DType::f32) {}           // NOLINT: its type is the dtype
  ElementsOf(Like<std::uint16_t>* p) : ElementsOf(reinterpret_cast<Byte*>(p), DType::bf16) {}  // NOLINT
  ElementsOf(Like<F16>* p) : ElementsOf(reinterpret_cast<Byte*>(p), DType::f16) {}             // NOLINT
  ElementsOf(Byte* p, DType dtype) : data(p), type(dtype) {}
  operator ElementsOf<const Byte>() const { return {data, type}; }  // NOLINT

  ElementsOf from(std::int64_t element) const { return {data + element * size_of(type), type}; }
  // The elements as T, which must be their type.
  template <class T>
  Like<T>* as() const {
    return reinterpret_cast<Like<T>*>(data);
  }
};

using Elements = ElementsOf<std::byte>;
using ConstElements = ElementsOf<const std::byte>;

// Returns f(x) for an x of the C++ type: float, std::uint16_t for bf16, or F16.
template <class F>
auto with_type(DType type, F f) {
  if (type == DType::bf16) return f(std::uint16_t{});
  if (type == DType::f16) return f(F16{});
  return f(0.0F);
}
// The same for kernels that take only fp32 and bf16.
template <class F>
auto with_f32_or_bf16(DType type, F f) {
  return type == DType::bf16 ? f(std::uint16_t{}) : f(0.0F);
}

}  // namespace plimsoll::cpu
