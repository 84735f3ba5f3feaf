// The gated product: one rounding, and bits that no thread changes.
#include "ops/gated/kernels.h"

#include "ops/kernel_buffers.h"
#include "tensor/half.h"

namespace plimsoll::cpu {
namespace {

using Halves = Guarded<std::uint16_t>;
using ops::Activation;

constexpr Activation kActivations[] = {Activation::silu, Activation::gelu_tanh, Activation::gelu_erf};

Elements bf16(Halves& x) { return {reinterpret_cast<std::byte*>(x.data()), DType::bf16}; }

// The 16-bit result is the fp32 result for the same numbers, rounded once. No activation is rounded before the product.
TEST(GatedKernels, RoundOnce) {
  on_every_target([] {
    for (const std::int64_t n : {1, 17, 1000, 16385}) {
      Halves gate(n), up(n), d_out(n), out(n), d_gate(n), d_up(n);
      Floats wide_gate(n), wide_up(n), wide_d(n), wide_out(n), wide_d_gate(n), wide_d_up(n);
      for (std::int64_t i = 0; i < n; ++i) {
        const auto fill = [&](Halves& narrow, Floats& wide, std::uint32_t stream) {
          narrow[i] = narrow_bf16(6 * unit_float(random_word(stream, i)) - 3);
          wide[i] = widen_bf16(narrow[i]);
        };
        fill(gate, wide_gate, 1), fill(up, wide_up, 2), fill(d_out, wide_d, 3);
      }
      for (const Activation activation : kActivations) {
        gated_forward(n, activation, bf16(gate), bf16(up), bf16(out));
        gated_forward(n, activation, wide_gate.data(), wide_up.data(), wide_out.data());
        gated_backward(n, activation, bf16(d_out), bf16(gate), bf16(up), bf16(d_gate), bf16(d_up));
        gated_backward(n, activation, wide_d.data(), wide_gate.data(), wide_up.data(), wide_d_gate.data(), wide_d_up.data());
        std::int64_t wrong = 0;
        for (std::int64_t i = 0; i < n; ++i) {
          wrong += out[i] != narrow_bf16(wide_out[i]);
          wrong += d_gate[i] != narrow_bf16(wide_d_gate[i]) || d_up[i] != narrow_bf16(wide_d_up[i]);
        }
        EXPECT_EQ(wrong, 0) << n;
      }
    }
  });
}

// GELU by the normal distribution keeps its relative precision where it vanishes.
TEST(GatedKernels, GeluIsPreciseInItsTail) {
  on_every_target([] {
    const std::int64_t n = 4000;
    Floats gate(n), up(n, 1), out(n);
    for (std::int64_t i = 0; i < n; ++i) gate[i] = -10 + 0.005F * static_cast<float>(i);
    gated_forward(n, Activation::gelu_erf, gate.data(), up.data(), out.data());
    for (std::int64_t i = 0; i < n; ++i) {
      const double x = gate[i], exact = x / 2 * std::erfc(-x / std::sqrt(2.0));
      ASSERT_NEAR(out[i], exact, 4e-6 * std::abs(exact) + 1e-30) << x;
    }
  });
}

TEST(GatedKernels, ThreadsChangeNoBit) {
  const std::int64_t n = 100003;
  const Floats d_out = random_floats(n, 1), gate = random_floats(n, 2, 5), up = random_floats(n, 3);
  for (const Activation activation : kActivations) {
    expect_same_on_threads([&] {
      Floats out(n);
      gated_forward(n, activation, gate.data(), up.data(), out.data());
      return out;
    });
    expect_same_on_threads([&] {
      Floats both(2 * n);
      gated_backward(n, activation, d_out.data(), gate.data(), up.data(), both.data(), both.data() + n);
      return both;
    });
  }
}

}  // namespace
}  // namespace plimsoll::cpu
