#include "tensor/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace plimsoll {

std::optional<std::int64_t> checked_elements(const Shape& shape) {
  std::int64_t product = 1;
  bool empty = false;
  for (const std::int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    empty = empty || extent == 0;
    if (extent > 0 && __builtin_mul_overflow(product, extent, &product)) return std::nullopt;
  }
  return empty ? 0 : product;
}

std::optional<std::int64_t> checked_bytes(const Shape& shape, DType dtype) {
  const auto elements = checked_elements(shape);
  std::int64_t bytes = 0;
  if (!elements || __builtin_mul_overflow(*elements, size_of(dtype), &bytes)) return std::nullopt;
  return bytes;
}

void Shape::push_back(std::int64_t extent) {
  ensure(rank_ < kMostAxes, "Shape", "more axes than a shape can have");
  extents_[rank_++] = extent;
}

std::int64_t Shape::elements() const {
  const auto count = checked_elements(*this);
  ensure(count.has_value(), "Shape::elements", "the number of elements is negative or passes 2^63 - 1");
  return *count;
}

std::int64_t dense_bytes(const Shape& shape, DType dtype) {
  const auto bytes = checked_bytes(shape, dtype);
  ensure(bytes.has_value(), "dense_bytes", "the number of bytes is negative or passes 2^63 - 1");
  return *bytes;
}

std::vector<std::int64_t> dense_strides(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.rank(), 1);
  for (std::size_t axis = shape.rank(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

std::string to_text(const Shape& shape) { return fmt::format("({})", fmt::join(shape.begin(), shape.end(), ", ")); }

}  // namespace plimsoll
