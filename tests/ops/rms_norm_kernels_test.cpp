// RMS norm: both roundings of the forward pass, one cast in the gradient of the weight, and bits that no thread changes.
#include "ops/rms_norm/kernels.h"

#include "ops/kernel_buffers.h"
#include "tensor/half.h"

namespace plimsoll::cpu {
namespace {

using Halves = Guarded<std::uint16_t>;

// 16-bit numbers of either type.
struct Narrow {
  DType dtype;
  std::uint16_t round(float x) const { return dtype == DType::bf16 ? narrow_bf16(x) : narrow_f16(x); }
  float widen(std::uint16_t bits) const { return dtype == DType::bf16 ? widen_bf16(bits) : widen_f16(bits); }
  Elements of(Halves& x) const { return {reinterpret_cast<std::byte*>(x.data()), dtype}; }
};
constexpr Narrow kNarrow[] = {{DType::bf16}, {DType::f16}};

// The roundings are those of Hugging Face's models: first the normalised x, then its product with the weight.
TEST(RmsNormKernels, RoundsBeforeTheWeightAndAfterIt) {
  on_every_target([] {
    for (const Narrow& narrow : kNarrow) {
      for (const auto& [rows, width] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {5, 33}, {67, 768}, {40, 16}}) {
        const Floats wide = random_floats(rows * width, 1, 3), weight = random_floats(width, 2, 2);
        Halves x(rows * width), y(rows * width);
        for (std::int64_t i = 0; i < x.size(); ++i) x[i] = narrow.round(wide[i]);
        Floats rstd(rows);
        rms_norm_forward(rows, width, 1e-6F, narrow.of(x), weight.data(), narrow.of(y), rstd.data());
        std::int64_t wrong = 0;
        for (std::int64_t i = 0; i < rows * width; ++i) {
          const float hat = narrow.widen(narrow.round(narrow.widen(x[i]) * rstd[i / width]));
          wrong += y[i] != narrow.round(hat * weight[i % width]);
        }
        EXPECT_EQ(wrong, 0) << name(narrow.dtype) << " " << rows << " x " << width;
      }
    }
  });
}

TEST(RmsNormKernels, NaNStaysNaN) {
  on_every_target([] {
    Floats x(3, std::bit_cast<float>(0x7fffffffU)), weight(3, 1), rstd(1);
    Halves y(3);
    for (const Narrow& narrow : kNarrow) {
      rms_norm_forward(1, 3, 1e-6F, x.data(), weight.data(), narrow.of(y), rstd.data());
      for (std::int64_t i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(narrow.widen(y[i])));
    }
  });
}

// The numbers show the difference of a product of 16 bits and one of 24. With one row in each tile's sum, the result is exactly
// the rounded one.
TEST(RmsNormKernels, TheWeightGetsWhatWasMultipliedByIt) {
  on_every_target([] {
    const std::int64_t width = 70;
    const Floats x = random_floats(width, 1), dy(width, 1);
    Floats weight(width, 1), y(width), rstd(1), dweight(width);
    rms_norm_forward(1, width, 1e-6F, x.data(), weight.data(), y.data(), rstd.data());
    Guarded<std::byte> scratch(rms_norm_backward_scratch(1, width).n);
    for (const DType output : {DType::f32, DType::bf16, DType::f16}) {
      rms_norm_backward(1, width, dy.data(), x.data(), rstd.data(), nullptr, output, {nullptr, dweight.data(), false},
                        scratch.data());
      for (std::int64_t i = 0; i < width; ++i) {
        const float hat = x[i] * rstd[0];
        float expected = hat;
        if (output == DType::bf16) expected = widen_bf16(narrow_bf16(hat));
        if (output == DType::f16) expected = widen_f16(narrow_f16(hat));
        ASSERT_EQ(dweight[i], expected);
      }
    }
  });
}

// A last axis with many heads does not increase the number of partial sums.
TEST(RmsNormKernels, ScratchStaysSmall) {
  EXPECT_EQ(rms_norm_backward_scratch(64, 64).n, 256);
  EXPECT_EQ(rms_norm_backward_scratch(65, 64).n, 2 * 256);
  EXPECT_EQ(rms_norm_backward_scratch(1 << 16, 64).n, 1024 * 256);
  for (const std::int64_t rows : {(1 << 16) + 1, 1 << 18, 1 << 20, 12345678}) {
    EXPECT_LE(rms_norm_backward_scratch(rows, 64).n, 1024 * 256) << rows;
    EXPECT_GE(rms_norm_backward_scratch(rows, 64).n, 512 * 256) << rows;
  }
}

TEST(RmsNormKernels, ThreadsChangeNoBit) {
  for (const auto& [rows, width] : {std::pair<std::int64_t, std::int64_t>{300, 200}, {70000, 8}}) {
    const Floats x = random_floats(rows * width, 1), dy = random_floats(rows * width, 2), weight = random_floats(width, 3);
    expect_same_on_threads([&, rows = rows, width = width] {
      Floats y(rows * width), rstd(rows);
      rms_norm_forward(rows, width, 1e-6F, x.data(), weight.data(), y.data(), rstd.data());
      return y;
    });
    Floats y(rows * width), rstd(rows);
    rms_norm_forward(rows, width, 1e-6F, x.data(), weight.data(), y.data(), rstd.data());
    expect_same_on_threads([&, rows = rows, width = width] {
      Floats all((rows + 1) * width);  // dx, dweight
      Guarded<std::byte> scratch(rms_norm_backward_scratch(rows, width).n);
      rms_norm_backward(rows, width, dy.data(), x.data(), rstd.data(), weight.data(), DType::f32,
                        {all.bytes(), all.data() + rows * width, false}, scratch.data());
      return all;
    });
  }
}

}  // namespace
}  // namespace plimsoll::cpu
