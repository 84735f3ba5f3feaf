// The extents of a tensor, outermost axis first. A shape without axes is a scalar of one element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tensor/dtype.h"

namespace plimsoll {

struct Shape {
  std::vector<std::int64_t> extents;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents) : extents(extents) {}
  explicit Shape(std::vector<std::int64_t> extents) : extents(std::move(extents)) {}

  std::size_t rank() const { return extents.size(); }
  std::int64_t operator[](std::size_t axis) const { return extents[axis]; }
  std::int64_t& operator[](std::size_t axis) { return extents[axis]; }
  // Extent of an axis counted from the back: last(0) is the innermost one.
  std::int64_t last(std::size_t from_back = 0) const { return extents[extents.size() - 1 - from_back]; }
  auto begin() const { return extents.begin(); }
  auto end() const { return extents.end(); }

  // Product of the extents. An internal error where it passes 2^63 - 1 or an extent is negative.
  std::int64_t elements() const;

  friend bool operator==(const Shape&, const Shape&) = default;
};

// The product of the extents, or empty where an extent is negative or the product passes 2^63 - 1. For unchecked input.
std::optional<std::int64_t> checked_elements(const Shape& shape);
// checked_elements times the size of an element, under the same rule.
std::optional<std::int64_t> checked_bytes(const Shape& shape, DType dtype);

// Bytes of a dense tensor.
std::int64_t dense_bytes(const Shape& shape, DType dtype);
// Strides of a dense tensor, in elements.
std::vector<std::int64_t> dense_strides(const Shape& shape);

// "(8, 1024, 768)", "(768)", "()".
std::string to_text(const Shape& shape);

}  // namespace plimsoll
