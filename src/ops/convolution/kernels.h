// Convolutions of NHWC images on the CPU, with sums in fp32. Scratch sizes are exact and depend on shape and threads alone.
// Nothing allocates while it runs, and the number of threads changes no bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "device/cpu/elements.h"
#include "ops/window.h"

namespace plimsoll::cpu {

// The convolution of which a kernel computes y or a gradient.
struct ConvolutionShape {
  std::int64_t batch = 1, height = 1, width = 1, channels = 1;  // of x
  std::int64_t kernel_h = 1, kernel_w = 1, outputs = 1;
  ops::Window window = {};
  std::int64_t groups = 1;
  DType operands = DType::f32;  // of both operands
  DType result = DType::f32;    // of y or dx
  bool bias = false;

  ops::WindowAxes axes() const { return {height, width, kernel_h, kernel_w, window}; }
  std::int64_t out_height() const { return axes().rows.outputs(); }
  std::int64_t out_width() const { return axes().columns.outputs(); }
  std::int64_t places() const { return kernel_h * kernel_w; }
  std::int64_t group_channels() const { return channels / groups; }
  std::int64_t group_outputs() const { return outputs / groups; }
  // True if each channel is a group of its own with one output.
  bool depthwise() const { return groups == channels && outputs == channels && groups > 1; }
  // True for a product of pixels and weights: 1 x 1 over all pixels, in one group.
  bool pointwise() const { return places() == 1 && groups == 1 && window == ops::Window{}; }
};

// The images of patches side by side (ops::kPatches), and back; the types may differ. Rows and columns that no patch covers are
// left out, and zero on the way back.
struct PatchShape {
  std::int64_t batch = 1, height = 1, width = 1, channels = 1;  // of the images
  std::int64_t patch_h = 1, patch_w = 1;
};
void cut_patches(const PatchShape& shape, ConstElements x, Elements y);
void join_patches(const PatchShape& shape, ConstElements dy, Elements dx);

}  // namespace plimsoll::cpu
