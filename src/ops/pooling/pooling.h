// Pooling of images [batch, height, width, channels]: the maximum of each window, or the mean over all positions. fp32, bf16 or
// fp16.
#pragma once

#include <string>

#include "graph/builder.h"
#include "ops/attributes.h"
#include "ops/window.h"

namespace plimsoll::ops {

// The most places of a window, since a place is one byte.
inline constexpr std::int64_t kMostPlaces = 256;

struct PoolAttributes {
  std::int64_t kernel_h = 2, kernel_w = 2;
  Window window = {};
  PLIMSOLL_FIELDS(kernel_h, kernel_w, window)
};
// For images of this size.
struct PoolBackwardAttributes {
  std::int64_t kernel_h = 2, kernel_w = 2;
  Window window = {};
  std::int64_t height = 1, width = 1;
  PLIMSOLL_FIELDS(kernel_h, kernel_w, window, height, width)
};

// x -> (y, places u8): the maximum of each window, and its place in the window, row by row. The first of equal maxima wins,
// padding never does, and NaN is larger than any number. Backward: (dy, places) -> dx.
extern const OpDef kMaxPool, kMaxPoolBackward;

struct MeanPoolAttributes {
  DType output = DType::f32;
  PLIMSOLL_FIELDS(output)
};
struct MeanPoolBackwardAttributes {
  Shape shape;  // of dx
  DType output = DType::f32;
  PLIMSOLL_FIELDS(shape, output)
};

// x [batch, .., channels] -> [batch, channels]: the mean over all axes between the first and the last one.
extern const OpDef kMeanPool, kMeanPoolBackward;

ValueId max_pool(GraphBuilder& builder, ValueId x, PoolAttributes attributes, std::string name);
ValueId mean_pool(GraphBuilder& builder, ValueId x, std::string name);

}  // namespace plimsoll::ops
