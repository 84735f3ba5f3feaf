// Convolutions and their input gradients as one kind of sum: each pixel of a target adds weighted pixels of a source. Pixels of
// the target with the same taps form a phase; a forward pass has one, the gradient of a window with steps of s has s x s.
//
//   forward, step 2:  target j  <- sources 2 j - left + kx for all kx
//   gradient, step 2: target 2 j + p  <- sources j + (p + left - kx) / 2, for the kx of which this is whole
#pragma once

#include <algorithm>
#include <vector>

#include "ops/convolution/kernels.h"

namespace plimsoll::cpu {

// A place of the kernel, and the position of its source pixel relative to that of the target's place 0.
struct Tap {
  std::int64_t place = 0, row = 0, column = 0;
};

// Up to three taps of neighbouring source pixels, for sums of single channels: offsets in elements of the source and of the
// weights.
struct TapRun {
  static constexpr std::int64_t kMost = 3;
  std::int64_t row = 0, column = 0, count = 0;  // of the first tap
  std::int64_t source = 0;
  std::int64_t weight[kMost] = {};
};

// The pixels (first_row + i step_h, first_column + j step_w) of the target, with i < rows and j < columns. Taps with neighbouring
// source pixels follow each other from left to right.
struct Phase {
  std::int64_t first_row = 0, first_column = 0, rows = 0, columns = 0;
  std::vector<Tap> taps;
  std::vector<TapRun> runs;  // the same taps, if the channels are single
};

struct ImageShape {
  std::int64_t height = 1, width = 1, channels = 1;
};

// The number of taps from `first` on, before `end`, whose source pixels are neighbours in a row.
inline std::int64_t run_of(const std::vector<Tap>& taps, std::size_t first, std::size_t end) {
  std::int64_t run = 1;
  for (std::size_t t = first + 1; t < end && taps[t].row == taps[first].row && taps[t].column == taps[first].column + run; ++t) {
    ++run;
  }
  return run;
}
// The pixels of such a run that lie inside the source, if the first one is at (row, column); others are padding.
inline ops::IndexRange inside_of(const ImageShape& source, std::int64_t row, std::int64_t column, std::int64_t run) {
  if (row < 0 || row >= source.height) return {run, run};
  const std::int64_t begin = std::clamp<std::int64_t>(-column, 0, run);
  return {begin, std::clamp<std::int64_t>(source.width - column, begin, run)};
}

struct Gathered {
  ConvolutionShape shape;
  bool gradient = false;  // of the input: the source is dy, the target dx
  ImageShape source, target;
  std::int64_t step_h = 1, step_w = 1;  // pixels of the target between neighbours of a phase
  std::int64_t move_h = 1, move_w = 1;  // pixels of the source between these neighbours
  std::vector<Phase> phases;

  std::int64_t source_channels() const { return source.channels / shape.groups; }
  std::int64_t target_channels() const { return target.channels / shape.groups; }
};

Gathered gathered_forward(const ConvolutionShape& shape);
Gathered gathered_gradient(const ConvolutionShape& shape);

// y = convolution(x, w) + bias, or dx; all weights are [kernel_h, kernel_w, channels / groups, outputs].
Bytes gathered_scratch(const Gathered& product, int threads);
void run_gathered(const Gathered& product, int threads, ConstElements source, ConstElements weight, const float* bias,
                  Elements target, std::byte* scratch);

// Zeros in the pixels of the phases without taps.
void clear_untapped(const Gathered& product, Elements target);

// The same for a convolution of single channels.
Bytes depthwise_scratch(const Gathered& product);
void run_depthwise(const Gathered& product, ConstElements source, ConstElements weight, const float* bias, Elements target,
                   std::byte* scratch);

}  // namespace plimsoll::cpu
