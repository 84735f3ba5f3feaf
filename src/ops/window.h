// The geometry of windows that slide over the rows and columns of images [batch, height, width, channels], for convolution and
// pooling. Sizes are in pixels; positions outside the image are padding.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tensor/shape.h"

namespace plimsoll::ops {

// The steps of a window, and the padding around the image on each side, which need not be even.
struct Window {
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t top = 0, bottom = 0, left = 0, right = 0;
  friend bool operator==(const Window&, const Window&) = default;
};
// "2x2 pad 0,1,0,1": the strides, then top, bottom, left and right.
std::string attribute_text(const Window& window);

// A window of any kernel, with the same padding on all sides.
constexpr Window square_window(std::int64_t stride, std::int64_t padding = 0) {
  return {stride, stride, padding, padding, padding, padding};
}

// Indices [begin, end).
struct IndexRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t count() const { return end - begin; }
};

// One axis of a window. Output o reads the inputs first(o) + k for each k of the kernel.
struct WindowAxis {
  std::int64_t size = 0, kernel = 0, stride = 1, before = 0, after = 0;

  // 0 if the kernel is larger than the padded axis.
  constexpr std::int64_t outputs() const {
    const std::int64_t room = size + before + after - kernel;
    return room < 0 ? 0 : room / stride + 1;
  }
  constexpr std::int64_t first(std::int64_t output) const { return output * stride - before; }
  // The places of the kernel that lie inside the image; empty (begin >= end) if none does.
  constexpr IndexRange inside(std::int64_t output) const {
    const std::int64_t at = first(output);
    return {at < 0 ? -at : 0, at + kernel < size ? kernel : size - at};
  }
  // The outputs whose place k of the kernel lies inside the image.
  constexpr IndexRange outputs_inside(std::int64_t k) const {
    const std::int64_t lowest = before - k, limit = size + before - k, all = outputs();
    const std::int64_t begin = lowest <= 0 ? 0 : (lowest + stride - 1) / stride;
    const std::int64_t end = limit <= 0 ? 0 : (limit + stride - 1) / stride;
    return {begin < all ? begin : all, end < all ? end : all};
  }
};

// Both axes of a window over an image.
struct WindowAxes {
  WindowAxis rows, columns;

  WindowAxes(std::int64_t height, std::int64_t width, std::int64_t kernel_h, std::int64_t kernel_w, const Window& window)
      : rows{height, kernel_h, window.stride_h, window.top, window.bottom},
        columns{width, kernel_w, window.stride_w, window.left, window.right} {}
};

// Throws E-SHAPE if the steps, the padding or the kernel are impossible, or the kernel is larger than the padded image x.
void require_window(const WindowAxes& axes, const Shape& x, std::string_view where);
// Requires four axes: (batch, height, width, channels).
void require_images(const Shape& x, std::string_view where);

}  // namespace plimsoll::ops
