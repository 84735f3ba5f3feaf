// The extents of a tensor, outermost axis first. A shape without axes is a scalar of one element.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace plimsoll {

// Planning copies graphs by the hundred, so a shape needs no heap.
class Shape {
 public:
  static constexpr std::size_t kMostAxes = 8;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents) : Shape(std::span(extents.begin(), extents.size())) {}
  // More than kMostAxes is an internal error.
  explicit Shape(std::span<const std::int64_t> extents) {
    for (const std::int64_t extent : extents) push_back(extent);
  }

  std::size_t rank() const { return rank_; }
  std::int64_t operator[](std::size_t axis) const { return extents_[axis]; }
  std::int64_t& operator[](std::size_t axis) { return extents_[axis]; }
  // The extent of an axis counted from the back: last(0) is the innermost one.
  std::int64_t last(std::size_t from_back = 0) const { return extents_[rank_ - 1 - from_back]; }
  const std::int64_t* begin() const { return extents_.data(); }
  const std::int64_t* end() const { return extents_.data() + rank_; }
  // Adds an innermost axis.
  void push_back(std::int64_t extent);
  void pop_back() { --rank_; }

  // Product of the extents. A negative extent, or a product above 2^63 - 1, is an internal error.
  std::int64_t elements() const;

  friend bool operator==(const Shape& a, const Shape& b) {
    bool equal = a.rank_ == b.rank_;
    for (std::size_t axis = 0; equal && axis < a.rank_; ++axis) equal = a[axis] == b[axis];
    return equal;
  }

 private:
  std::array<std::int64_t, kMostAxes> extents_{};
  std::size_t rank_ = 0;
};

// Product of the extents; empty for a negative extent or a product above 2^63 - 1. For unchecked input.
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
