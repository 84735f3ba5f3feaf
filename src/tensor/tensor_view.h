// A view of a tensor owned by others: its address, shape and type. Kernels take views; nothing frees them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace plimsoll {

struct TensorView {
  std::byte* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;
  std::vector<std::int64_t> strides;  // in elements; empty: dense

  bool dense() const { return strides.empty() || strides == dense_strides(shape); }
  std::int64_t elements() const { return shape.elements(); }
  std::int64_t bytes() const { return dense_bytes(shape, dtype); }

  // The elements of a dense view as T, which has to match `dtype`.
  template <class T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(data), static_cast<std::size_t>(elements())};
  }
  template <class T>
  T* as_pointer() const {
    return reinterpret_cast<T*>(data);
  }
};

}  // namespace plimsoll
