// Convolution of images in NHWC: y[b, i, j, o] = bias[o] + the sum over the window of x[b, i stride + ky - top, j stride + kx -
// left, c] w[ky, kx, c, o]. x is [batch, height, width, channels], w [kernel height, kernel width, channels / groups, outputs].
// Input and output channels are cut into as many consecutive groups; group g of the outputs reads group g of the inputs. x and w
// are fp32, or both of one 16-bit type, to which y may be rounded; all else is fp32.
#pragma once

#include <string>

#include "graph/builder.h"
#include "ops/attributes.h"
#include "ops/window.h"

namespace plimsoll::ops {

struct ConvolutionAttributes {
  Window window = {};
  std::int64_t groups = 1;
  bool bias = false;          // third input [outputs]
  DType output = DType::f32;  // fp32 or the type of x and w
  PLIMSOLL_FIELDS(window, groups, bias, output)
};

// (dy, w) -> dx, for images of this size.
struct ConvolutionInputAttributes {
  Window window = {};
  std::int64_t groups = 1, height = 1, width = 1;
  DType output = DType::f32;  // fp32 or the type of dy and w
  PLIMSOLL_FIELDS(window, groups, height, width, output)
};

// (x, dy, [into]) -> dw f32 [kernel_h, kernel_w, channels / groups, outputs], added to `into` with `accumulate`.
struct ConvolutionWeightAttributes {
  Window window = {};
  std::int64_t groups = 1, kernel_h = 1, kernel_w = 1;
  bool accumulate = false;
  PLIMSOLL_FIELDS(window, groups, kernel_h, kernel_w, accumulate)
};

extern const OpDef kConvolution, kConvolutionInput, kConvolutionWeight;

// The pixels of patches that lie side by side: x [b, h, w, c] -> [b, h / height, w / width, height width c]; rows and columns
// after the last whole patch are left out. The gradient writes zeros there.
struct PatchAttributes {
  std::int64_t height = 1, width = 1;
  DType output = DType::f32;
  PLIMSOLL_FIELDS(height, width, output)
};
struct PatchBackwardAttributes {
  std::int64_t height = 1, width = 1;  // of a patch
  std::int64_t image_height = 1, image_width = 1;
  DType output = DType::f32;
  PLIMSOLL_FIELDS(height, width, image_height, image_width, output)
};
extern const OpDef kPatches, kPatchesBackward;

// A weight of two axes [height width channels, outputs] is an ordinary linear layer over patches: the window of `attributes` has
// no padding, its steps are the kernel, and there is one group. A kernel of 1 x 1 reads x itself. Any other convolution has a
// weight of four axes. `bias` may be invalid; `attributes.bias` follows from it.
ValueId convolution(GraphBuilder& builder, ValueId x, ValueId weight, ValueId bias, ConvolutionAttributes attributes,
                    std::string name);

}  // namespace plimsoll::ops
