#include "ops/elementwise/kernels.h"

#include <limits>

#include "ops/kernel_buffers.h"
#include "ops/update/kernels.h"
#include "tensor/half.h"

namespace plimsoll::cpu {
namespace {

using Binary = std::function<void(std::int64_t, const float*, const float*, float*)>;
using BinaryValue = std::function<double(double, double)>;
using Unary = std::function<void(std::int64_t, const float*, float*)>;
using UnaryValue = std::function<double(double)>;

void expect_near(const Floats& got, const std::function<double(std::int64_t)>& expected, double relative, double absolute) {
  int failures = 0;
  for (std::int64_t i = 0; i < got.size() && failures < 3; ++i) {
    const double e = expected(i), error = std::abs(double{got[i]} - e);
    if (!(error <= relative * std::abs(e) + absolute))
      ADD_FAILURE() << "element " << i << ": " << got[i] << " for " << e << (++failures, "");
  }
}

void check_binary(const Binary& kernel, const BinaryValue& value, double relative = 1e-7, double absolute = 1e-30,
                  float range = 3) {
  on_every_target([&] {
    for (const std::int64_t n : some_sizes()) {
      const Floats a = random_floats(n, 1, range), b = random_floats(n, 2, range);
      Floats out(n), over_a = a.clone(), over_b = b.clone();
      kernel(n, a.data(), b.data(), out.data());
      expect_near(
          out, [&](std::int64_t i) { return value(a[i], b[i]); }, relative, absolute);
      kernel(n, over_a.data(), b.data(), over_a.data());
      kernel(n, a.data(), over_b.data(), over_b.data());
      EXPECT_TRUE(out == over_a && out == over_b);
    }
  });
}

void check_unary(const Unary& kernel, const UnaryValue& value, double relative = 1e-7, double absolute = 1e-30, float range = 3) {
  check_binary([&](std::int64_t n, const float* a, const float*, float* out) { kernel(n, a, out); },
               [&](double a, double) { return value(a); }, relative, absolute, range);
}

constexpr double kRoot = 0.79788456080286535588;

double gelu(double x) { return 0.5 * x * (1 + std::tanh(kRoot * (x + 0.044715 * x * x * x))); }
double gelu_derivative(double x) {
  const double t = std::tanh(kRoot * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kRoot * (1 + 3 * 0.044715 * x * x);
}

TEST(ElementwiseKernels, ArithmeticMatchesDouble) {
  check_binary(add, [](double a, double b) { return a + b; });
  check_binary(multiply, [](double a, double b) { return a * b; });
  check_unary([](std::int64_t n, const float* a, float* out) { scale(n, a, 0.3f, out); },
              [](double a) { return double{0.3f} * a; });
}

TEST(ElementwiseKernels, ReluMatchesAndKeepsNan) {
  check_unary(relu_forward, [](double x) { return x > 0 ? x : 0; });
  check_binary(relu_backward, [](double dy, double x) { return x > 0 ? dy : 0; });
  on_every_target([] {
    Floats x(20, std::numeric_limits<float>::quiet_NaN());
    relu_forward(20, x.data(), x.data());
    for (std::int64_t i = 0; i < 20; ++i) EXPECT_TRUE(std::isnan(x[i]));
  });
}

TEST(ElementwiseKernels, GeluMatchesDouble) {
  for (const float range : {0.01f, 3.0f, 12.0f}) {
    check_unary(gelu_tanh_forward, gelu, 1e-6, 1e-7 * range, range);
    check_binary(
        gelu_tanh_backward, [](double dy, double x) { return dy * gelu_derivative(x); }, 1e-6, 4e-7 * range, range);
  }
}

TEST(ElementwiseKernels, GeluHasItsLimits) {
  on_every_target([] {
    Floats x(4), y(4), dx(4), one(4, 1);
    x[0] = 1e4f, x[1] = -1e4f, x[2] = -3e38f, x[3] = 0;
    gelu_tanh_forward(4, x.data(), y.data());
    EXPECT_EQ(y.values(), (std::vector<float>{1e4f, 0, 0, 0}));
    gelu_tanh_backward(2, one.data(), x.data(), dx.data());
    EXPECT_EQ(dx[0], 1);
    EXPECT_EQ(dx[1], 0);
    x[0] = std::numeric_limits<float>::quiet_NaN();
    gelu_tanh_forward(1, x.data(), y.data());
    EXPECT_TRUE(std::isnan(y[0]));
  });
}

TEST(ElementwiseKernels, Relu6MatchesAndKeepsNan) {
  check_unary(
      relu6_forward, [](double x) { return std::min(std::max(x, 0.0), 6.0); }, 1e-7, 1e-30, 9);
  check_binary(
      relu6_backward, [](double dy, double x) { return x > 0 && x < 6 ? dy : 0; }, 1e-7, 1e-30, 9);
  on_every_target([] {
    Floats x(5), y(5), dx(5), one(5, 1);
    x[0] = std::numeric_limits<float>::quiet_NaN(), x[1] = 0, x[2] = 6, x[3] = HUGE_VALF, x[4] = -HUGE_VALF;
    relu6_forward(5, x.data(), y.data());
    EXPECT_TRUE(std::isnan(y[0]));
    for (const std::int64_t i : {1, 2, 3, 4}) EXPECT_EQ(y[i], i == 2 || i == 3 ? 6 : 0);
    relu6_backward(5, one.data(), x.data(), dx.data());
    EXPECT_EQ(dx.values(), (std::vector<float>{0, 0, 0, 0, 0}));
  });
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double normal(double x) { return std::erfc(-x * std::sqrt(0.5)) / 2; }

TEST(ElementwiseKernels, SiluMatchesDouble) {
  for (const float range : {0.01f, 3.0f, 12.0f}) {
    check_unary(
        silu_forward, [](double x) { return x * sigmoid(x); }, 1e-6, 1e-7 * range, range);
    check_binary(
        silu_backward, [](double dy, double x) { return dy * sigmoid(x) * (1 + x * sigmoid(-x)); }, 1e-6, 4e-7 * range, range);
  }
}

TEST(ElementwiseKernels, ExactGeluMatchesDouble) {
  const auto derivative = [](double x) { return normal(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0)); };
  for (const float range : {0.01f, 3.0f, 12.0f}) {
    check_unary(
        gelu_erf_forward, [](double x) { return x * normal(x); }, 1e-6, 2e-7 * range, range);
    check_binary(
        gelu_erf_backward, [&](double dy, double x) { return dy * derivative(x); }, 1e-6, 4e-7 * range, range);
  }
}

TEST(ElementwiseKernels, SiluAndExactGeluHaveTheirLimits) {
  on_every_target([] {
    for (const bool gelu : {false, true}) {
      const auto forward = gelu ? gelu_erf_forward : silu_forward;
      const auto backward = gelu ? gelu_erf_backward : silu_backward;
      Floats x(4), y(4), dx(4), one(4, 1);
      x[0] = 1e4f, x[1] = -1e4f, x[2] = 0, x[3] = std::numeric_limits<float>::quiet_NaN();
      forward(4, x.data(), y.data());
      backward(4, one.data(), x.data(), dx.data());
      EXPECT_TRUE(y[0] == 1e4f && y[1] == 0 && y[2] == 0 && std::isnan(y[3]));
      EXPECT_TRUE(dx[0] == 1 && dx[1] == 0 && dx[2] == 0.5f && std::isnan(dx[3]));
    }
  });
}

// The bits of an element do not depend on where in a vector or tile it lies.
TEST(ElementwiseKernels, PositionChangesNoBit) {
  on_every_target([] {
    const std::int64_t n = 40;
    const Floats x = random_floats(n, 3, 4), dy = random_floats(n, 4);
    Floats y(n), dx(n), one(1);
    gelu_tanh_forward(n, x.data(), y.data());
    gelu_tanh_backward(n, dy.data(), x.data(), dx.data());
    for (std::int64_t i = 0; i < n; ++i) {
      gelu_tanh_forward(1, &x[i], one.data());
      EXPECT_EQ(one[0], y[i]);
      gelu_tanh_backward(1, &dy[i], &x[i], one.data());
      EXPECT_EQ(one[0], dx[i]);
    }
  });
}

TEST(ElementwiseKernels, BroadcastAndFill) {
  on_every_target([] {
    for (const auto& [outer, n] : {std::pair<std::int64_t, std::int64_t>{3, 7}, {700, 33}, {2, 20000}, {1, 1}, {5, 768}}) {
      const Floats rows = random_floats(outer, 3);
      Floats wide(outer * n), filled(n);
      broadcast_last(outer, n, 0.5f, rows.data(), wide.data());
      fill(n, 2.5f, filled.data());
      bool same = true;
      for (std::int64_t i = 0; i < outer * n; ++i) {
        same &= wide[i] == 0.5f * rows[i / n] && filled[i % n] == 2.5f;
      }
      EXPECT_TRUE(same) << outer << " x " << n;
    }
  });
}

struct Bf16 {
  using Type = std::uint16_t;
  static Type narrow(float x) { return narrow_bf16(x); }
  static float widen(Type x) { return widen_bf16(x); }
};
struct Fp16 {
  using Type = F16;
  static Type narrow(float x) { return static_cast<F16>(narrow_f16(x)); }
  static float widen(Type x) { return widen_f16(static_cast<std::uint16_t>(x)); }
};

// Expects the results of fp32 for the same numbers, rounded to nearest even. Some are subnormal in fp16.
template <class Width>
void expect_fp32_rounded(std::int64_t n) {
  Guarded<typename Width::Type> x(n), dy(n), y(n), dx(n), z(n), dz(n);
  Floats wide_x(n), wide_dy(n), wide_y(n), wide_dx(n), wide_z(n), wide_dz(n);
  const Floats some = random_floats(n, 1, 3), more = random_floats(n, 2);
  for (std::int64_t i = 0; i < n; ++i) {
    x[i] = Width::narrow(some[i]), dy[i] = Width::narrow(more[i] * (i % 3 == 0 ? 1e-6f : 1.0f));
  }
  if (n > 31) x[7] = Width::narrow(std::nanf("")), x[8] = Width::narrow(HUGE_VALF), x[9] = Width::narrow(-HUGE_VALF);
  for (std::int64_t i = 0; i < n; ++i) wide_x[i] = Width::widen(x[i]), wide_dy[i] = Width::widen(dy[i]);
  gelu_tanh_forward(n, x.data(), y.data());
  gelu_tanh_forward(n, wide_x.data(), wide_y.data());
  gelu_tanh_backward(n, dy.data(), x.data(), dx.data());
  gelu_tanh_backward(n, wide_dy.data(), wide_x.data(), wide_dx.data());
  relu_forward(n, x.data(), z.data());
  relu_forward(n, wide_x.data(), wide_z.data());
  relu_backward(n, dy.data(), x.data(), dz.data());
  relu_backward(n, wide_dy.data(), wide_x.data(), wide_dz.data());
  // The compiler chooses the bits of a NaN.
  const auto differ = [](typename Width::Type narrow, float wide) {
    return std::isnan(wide) ? !std::isnan(Width::widen(narrow)) : narrow != Width::narrow(wide);
  };
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    wrong += differ(y[i], wide_y[i]) || differ(dx[i], wide_dx[i]) || differ(z[i], wide_z[i]) || differ(dz[i], wide_dz[i]);
  }
  EXPECT_EQ(wrong, 0) << n;
}

TEST(ElementwiseKernels, NarrowIsFp32Rounded) {
  on_every_target([] {
    for (const std::int64_t n : {1, 31, 20011}) {
      expect_fp32_rounded<Bf16>(n);
      expect_fp32_rounded<Fp16>(n);
    }
  });
}

// The mean is right over time, not only over elements. Each addend is an eighth of the distance of two neighbours; rounding to
// nearest would lose it. Each step adds a variance of p (1 - p) squared distances.
TEST(ElementwiseKernels, RoundedSumsFollowOverManySteps) {
  on_every_target([] {
    constexpr std::int64_t n = 4099;
    constexpr std::uint32_t kSteps = 1000;
    Guarded<std::uint16_t> sums(n);
    Floats part(n), first(n);
    for (std::int64_t i = 0; i < n; ++i) part[i] = 0x1p-10f, first[i] = 1;
    accumulate_rounded(n, first.data(), /*add=*/false, sums.data(), {{3, 9}, 0, 0});
    for (std::uint32_t step = 1; step <= kSteps; ++step) accumulate_rounded(n, part.data(), true, sums.data(), {{3, 9}, step, 0});
    double sum = 0, squares = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const double error = widen_bf16(sums[i]) - (1 + kSteps * 0x1p-10);
      sum += error;
      squares += error * error;
    }
    const double theory = 0x1p-7 * std::sqrt(kSteps * 0.125 * 0.875), spread = std::sqrt(squares / n);
    EXPECT_LE(std::abs(sum / n), 4 * theory / std::sqrt(n)) << "a bias";
    EXPECT_LE(spread, 1.5 * theory);
    EXPECT_GE(spread, theory / 1.5);
  });
}

TEST(ElementwiseKernels, RoundedSumsDoNotDependOnThreads) {
  const std::int64_t n = 100003;
  const Floats g = random_floats(n, 1);
  expect_same_on_threads([&] {
    std::vector<std::uint16_t> sums(static_cast<std::size_t>(n));
    for (const std::uint32_t step : {0U, 1U, 2U}) accumulate_rounded(n, g.data(), step > 0, sums.data(), {{3, 9}, step, 0});
    Floats wide(n);
    for (std::int64_t i = 0; i < n; ++i) wide[i] = widen_bf16(sums[static_cast<std::size_t>(i)]);
    return wide;
  });
}

TEST(ElementwiseKernels, ThreadsChangeNoBit) {
  const Floats x = random_floats(100003, 1, 3), dy = random_floats(100003, 2);
  expect_same_on_threads([&] {
    Floats y(x.size());
    gelu_tanh_backward(x.size(), dy.data(), x.data(), y.data());
    return y;
  });
}

}  // namespace
}  // namespace plimsoll::cpu
