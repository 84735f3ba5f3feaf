#include "ops/update/kernels.h"

#include <limits>

#include "ops/kernel_buffers.h"

namespace plimsoll::cpu {
namespace {

constexpr int kSteps = 100;

std::vector<double> doubles(const Floats& x) { return std::vector<double>(x.data(), x.data() + x.size()); }

void expect_close(const Floats& got, const std::vector<double>& expected, double tolerance) {
  double worst = 0;
  for (std::int64_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(got[i] - expected[static_cast<std::size_t>(i)]);
    worst = std::isnan(error) ? error : std::max(worst, error);
  }
  EXPECT_LE(worst, tolerance);
}

TEST(UpdateKernels, AdamWFollowsDoubleForHundredSteps) {
  on_every_target([] {
    for (const std::int64_t n : {1, 1003}) {
      Floats p = random_floats(n, 1), m(n), v(n);
      std::vector<double> dp = doubles(p), dm(dp.size()), dv(dp.size());
      for (int t = 1; t <= kSteps; ++t) {
        const Floats g = random_floats(n, static_cast<std::uint32_t>(100 + t), 0.1f);
        const AdamWStep s{1e-2, 0.9, 0.99, 1e-8, 0.1, 1 - std::pow(0.9, t), 1 - std::pow(0.99, t), 0.5};
        adamw(n, p.data(), m.data(), v.data(), g.data(), s);
        for (std::size_t i = 0; i < dp.size(); ++i) {
          const double d = 0.5 * double{g[static_cast<std::int64_t>(i)]};
          dp[i] *= 1 - s.lr * s.weight_decay;
          dm[i] = s.beta1 * dm[i] + (1 - s.beta1) * d;
          dv[i] = s.beta2 * dv[i] + (1 - s.beta2) * d * d;
          dp[i] -= s.lr / s.bias_correction1 * dm[i] / (std::sqrt(dv[i]) / std::sqrt(s.bias_correction2) + s.epsilon);
        }
      }
      expect_close(p, dp, 3e-6);
      expect_close(m, dm, 1e-8);
      expect_close(v, dv, 1e-9);
    }
  });
}

// Three steps of torch.optim.AdamW(lr=0.1, betas=(0.8, 0.9), eps=1e-3, weight_decay=0.2) on p = 1, g = 0.5, -0.25, 2, worked in
// fp64.
TEST(UpdateKernels, AdamWWorkedByHand) {
  Floats p(1, 1), m(1), v(1), g(1);
  const float gradients[] = {0.5f, -0.25f, 2.0f};
  double parameter = 1, first = 0, second = 0;
  for (int t = 1; t <= 3; ++t) {
    g[0] = gradients[t - 1];
    adamw(1, p.data(), m.data(), v.data(), g.data(), {0.1, 0.8, 0.9, 1e-3, 0.2, 1 - std::pow(0.8, t), 1 - std::pow(0.9, t), 1});
    first += 0.2 * (double{g[0]} - first);
    second += 0.1 * (double{g[0]} * g[0] - second);
    const double corrected = std::sqrt(second / (1 - std::pow(0.9, t)));
    parameter = 0.98 * parameter - 0.1 * (first / (1 - std::pow(0.8, t))) / (corrected + 1e-3);
    if (t == 1) {
      EXPECT_NEAR(p[0], 0.98 - 0.1 * 0.5 / 0.501, 1e-6);
    }
    EXPECT_NEAR(p[0], parameter, 1e-6);
  }
}

struct SgdCase {
  double momentum, weight_decay;
  bool nesterov;
};

TEST(UpdateKernels, SgdFollowsDoubleForHundredSteps) {
  on_every_target([] {
    for (const SgdCase& c : {SgdCase{0, 0, false}, {0, 0.1, false}, {0.9, 0, false}, {0.9, 0.1, false}, {0.9, 0.1, true}}) {
      for (const std::int64_t n : {5, 1003}) {
        Floats p = random_floats(n, 1), buffer(n, std::numeric_limits<float>::quiet_NaN());
        std::vector<double> dp = doubles(p), db(dp.size());
        for (int t = 1; t <= kSteps; ++t) {
          const Floats g = random_floats(n, static_cast<std::uint32_t>(100 + t));
          sgd(n, p.data(), c.momentum == 0 ? nullptr : buffer.data(), g.data(),
              {1e-2, c.momentum, c.weight_decay, c.nesterov, t == 1, 0.5});
          for (std::size_t i = 0; i < dp.size(); ++i) {
            const double d = 0.5 * double{g[static_cast<std::int64_t>(i)]} + c.weight_decay * dp[i];
            db[i] = t == 1 ? d : c.momentum * db[i] + d;
            dp[i] -= 1e-2 * (c.momentum == 0 ? d : c.nesterov ? d + c.momentum * db[i] : db[i]);
          }
        }
        expect_close(p, dp, 1e-5);
        if (c.momentum != 0) expect_close(buffer, db, 1e-5);
      }
    }
  });
}

// google/automl's Lion: c = b1 m + (1 - b1) g, p -= lr (sign(c) + decay p), m = b2 m + (1 - b2) g.
TEST(UpdateKernels, LionFollowsDoubleForHundredSteps) {
  on_every_target([] {
    for (const std::int64_t n : {1, 1003}) {
      Floats p = random_floats(n, 1), m(n);
      std::vector<double> dp = doubles(p), dm(dp.size());
      for (int t = 1; t <= kSteps; ++t) {
        const Floats g = random_floats(n, static_cast<std::uint32_t>(100 + t), 0.1f);
        const Floats before = m.clone();
        lion(n, p.data(), m.data(), g.data(), {1e-3, 0.9, 0.99, 0.1, 0.5});
        for (std::size_t i = 0; i < dp.size(); ++i) {
          const auto at = static_cast<std::int64_t>(i);
          const double d = 0.5 * double{g[at]}, direction = 0.9 * double{before[at]} + 0.1 * d;  // the sign as fp32 has it
          dp[i] = dp[i] * (1 - 1e-3 * 0.1) - 1e-3 * (direction > 0 ? 1 : -1);
          dm[i] = 0.99 * dm[i] + 0.01 * d;
        }
      }
      expect_close(p, dp, 3e-6);
      expect_close(m, dm, 1e-8);
    }
  });
}

TEST(UpdateKernels, ClipsByValueAndLetsNaNThrough) {
  on_every_target([] {
    const std::int64_t n = 67;
    Floats p(n, 1), g(n);
    for (std::int64_t i = 0; i + 3 < n; i += 4) g[i] = 5, g[i + 1] = -5, g[i + 2] = 0.25f, g[i + 3] = std::nanf("");
    sgd(n, p.data(), nullptr, g.data(), {.lr = 1, .gradient_scale = 0.5, .clip_value = 2});
    for (std::int64_t i = 0; i + 3 < n; i += 4) {
      EXPECT_EQ(p[i], -1);
      EXPECT_EQ(p[i + 1], 3);
      EXPECT_EQ(p[i + 2], 0.875f);
      EXPECT_TRUE(std::isnan(p[i + 3]));
    }
    g[0] = 0, g[3] = std::nanf("");
    Floats q(1, 1), m(1);
    lion(1, q.data(), m.data(), g.data(), {.lr = 1});
    EXPECT_EQ(q[0], 1) << "no direction, no step";
    lion(1, q.data(), m.data(), g.data() + 3, {.lr = 1});
    EXPECT_TRUE(std::isnan(q[0]) && std::isnan(m[0]));
  });
}

TEST(UpdateKernels, PiecesGiveTheBitsOfTheWhole) {
  on_every_target([] {
    const std::int64_t n = 40001, cut = 12347;
    const Floats g = random_floats(n, 1);
    Floats p = random_floats(n, 2), m = random_floats(n, 3), v(n, 0.5f), p2 = p.clone(), m2 = m.clone(), v2 = v.clone();
    const AdamWStep s{.weight_decay = 0.1, .bias_correction1 = 0.3, .bias_correction2 = 0.2, .gradient_scale = 0.7};
    adamw(n, p.data(), m.data(), v.data(), g.data(), s);
    adamw(cut, p2.data(), m2.data(), v2.data(), g.data(), s);
    adamw(n - cut, p2.data() + cut, m2.data() + cut, v2.data() + cut, g.data() + cut, s);
    EXPECT_TRUE(p == p2 && m == m2 && v == v2);
  });
}

TEST(UpdateKernels, Clip) {
  EXPECT_EQ(clip_coefficient(0.5, 1), 1);
  EXPECT_DOUBLE_EQ(clip_coefficient(5, 1), 1 / (5 + 1e-6));
  EXPECT_EQ(clip_coefficient(5, 0), 1);
  EXPECT_TRUE(std::isnan(clip_coefficient(std::nan(""), 1)));
}

TEST(UpdateKernels, ThreadsChangeNoBit) {
  const std::int64_t n = 100003;
  const Floats g = random_floats(n, 1), start = random_floats(n, 2);
  expect_same_on_threads([&] {
    Floats p = start.clone(), m(n), v(n);
    adamw(n, p.data(), m.data(), v.data(), g.data(), {});
    return p;
  });
}

}  // namespace
}  // namespace plimsoll::cpu
