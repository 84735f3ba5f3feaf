// Pooling of NHWC images on the CPU: arrays of fp32, bf16 or fp16, computed in fp32 and rounded once. Nothing allocates, and the
// number of threads changes no bit.
#pragma once

#include <cstdint>

#include "device/cpu/elements.h"
#include "ops/window.h"

namespace plimsoll::cpu {

struct PoolShape {
  std::int64_t batch = 1, height = 1, width = 1, channels = 1;  // of x
  std::int64_t kernel_h = 1, kernel_w = 1;
  ops::Window window = {};

  ops::WindowAxes axes() const { return {height, width, kernel_h, kernel_w, window}; }
};

// y and the places are [batch, windows down, windows across, channels]; ops/pooling/pooling.h has the rules for equal maxima.
void max_pool(const PoolShape& shape, ConstElements x, Elements y, std::uint8_t* places);
// dx [batch, height, width, channels]: windows add in the order of their pixels in y.
void max_pool_backward(const PoolShape& shape, ConstElements dy, const std::uint8_t* places, Elements dx);

// x [batch, positions, channels] -> y [batch, channels], the mean over positions in ascending order; and back.
void mean_pool(std::int64_t batch, std::int64_t positions, std::int64_t channels, ConstElements x, Elements y);
void mean_pool_backward(std::int64_t batch, std::int64_t positions, std::int64_t channels, ConstElements dy, Elements dx);

}  // namespace plimsoll::cpu
