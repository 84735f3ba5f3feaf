// Convolutions of 16-bit operands in one group by the library's products, which multiply 16 bits directly. The sources of a strip
// of pixels are copied side by side in scratch, and a product multiplies them with all weights. Strips depend on the shape alone.
//
//   pixels x (taps x channels)     (taps x channels) x outputs
//   +----------------+             +---------+       +---------+
//   |                |             |         |       |         |
//   |     strip      |      x      | weights |   =   |/////////|
//   |                |             |         |       |         |
//   +----------------+             +---------+       +---------+
#pragma once

#include <optional>
#include <vector>

#include "device/cpu/gemm.h"
#include "ops/convolution/kernels_gathered.h"

namespace plimsoll::cpu {

// y or dx. `plan_strips` is absent if the library does not multiply 16 bits, or there are groups.
std::optional<GemmPlan> plan_strips(const Gathered& product, int threads);

class StripConvolution {
 public:
  StripConvolution(Gathered product, int threads);
  void run(const std::byte* source, const std::byte* weight, const float* bias, std::byte* target, std::byte* scratch) const;

 private:
  Gathered product_;
  std::int64_t scratch_;
  std::vector<Gemm> gemms_;  // of each phase with taps: for whole strips, for the last one
};

// dw, of some taps at a time.
std::optional<GemmPlan> plan_weight_strips(const ConvolutionShape& shape, int threads);

class StripWeights {
 public:
  StripWeights(const ConvolutionShape& shape, int threads);
  void run(const std::byte* x, const std::byte* dy, bool overwrite, float* dw, std::byte* scratch) const;

 private:
  Gathered product_;
  std::int64_t scratch_;
  std::vector<Gemm> gemms_;  // [last taps][last strip][adds]
};

}  // namespace plimsoll::cpu
