#include "ops/update/kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/ceil_div.h"
#include "device/cpu/cast.h"
#include "ops/kernel_buffers.h"
#include "ops/update/update.h"
#include "tensor/half.h"

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

// The last tile is not full. AdamW's divisions by zero past the end do not count.
TEST(UpdateKernels, ReportHowTheParameterChanges) {
  constexpr std::int64_t kMany = 40003;
  on_every_target([] {
    const Floats before = random_floats(kMany, 1);
    Floats p = random_floats(kMany, 1), m(kMany), v(kMany);
    const Floats g = random_floats(kMany, 2);
    std::vector<Change> tiles(static_cast<std::size_t>(change_scratch(kMany).n) / sizeof(Change));
    const AdamWStep step{.lr = 1e-2, .beta1 = 0, .beta2 = 0, .epsilon = 0};
    adamw(kMany, p.data(), m.data(), v.data(), g.data(), step, {}, {}, tiles.data());
    double squares = 0;
    for (std::int64_t i = 0; i < kMany; ++i) squares += double{before[i]} * double{before[i]};
    const Change change = sum_of(tiles.data(), kMany, {.before = 1, .step = 2});
    EXPECT_NEAR(change.before, 1 + squares, 1e-4 * squares);
    EXPECT_NEAR(change.step, 2 + kMany * 1e-4, kMany * 1e-4 * 1e-4);  // each moves by the learning rate
  });
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

using Narrow = Guarded<std::uint16_t>;

Narrow narrowed(const Floats& x) {
  Narrow result(x.size());
  for (std::int64_t i = 0; i < x.size(); ++i) result[i] = narrow_bf16(x[i]);
  return result;
}
Floats widened(const Narrow& x) {
  Floats result(x.size());
  for (std::int64_t i = 0; i < x.size(); ++i) result[i] = widen_bf16(x[i]);
  return result;
}

// The definition, one element at a time.
std::uint16_t rounded_at_random(float x, std::uint32_t noise) {
  return static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(x) + (noise & 0xffff)) >> 16);
}

TEST(UpdateKernels, NarrowStatesRoundAsTheNoiseSays) {
  on_every_target([] {
    const std::int64_t n = 20011, first = 4096;
    const StochasticRounding rounding{{17, 4}, (std::uint64_t{5} << 32) + 3, first};
    const Floats g = random_floats(n, 1);
    Floats p = random_floats(n, 2), q = p.clone();
    Narrow m = narrowed(random_floats(n, 3)), v = narrowed(Floats(n, 0.5f));
    Floats exact_m = widened(m), exact_v = widened(v);
    const AdamWStep s{.weight_decay = 0.1, .bias_correction1 = 0.3, .bias_correction2 = 0.2, .gradient_scale = 0.7};
    adamw(n, p.data(), m.data(), v.data(), g.data(), s, {}, rounding);
    adamw(n, q.data(), exact_m.data(), exact_v.data(), g.data(), s);
    EXPECT_TRUE(p == q) << "parameters see states before they are rounded";
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const auto group = static_cast<std::uint32_t>((first + i) / 4);
      const std::uint32_t word = philox4x32({17, 4}, {group, 0, 3, 5})[static_cast<std::size_t>(i % 4)];
      wrong += m[i] != rounded_at_random(exact_m[i], word) || v[i] != rounded_at_random(exact_v[i], word >> 16);
    }
    EXPECT_EQ(wrong, 0);
  });
}

TEST(UpdateKernels, NarrowStatesInPiecesGiveTheBitsOfTheWhole) {
  on_every_target([] {
    const std::int64_t n = 40001, cut = 12348;
    const Floats g = random_floats(n, 1);
    Floats p = random_floats(n, 2), p2 = p.clone();
    Narrow m = narrowed(random_floats(n, 3)), m2 = m.clone();
    const LionStep s{.weight_decay = 0.1, .gradient_scale = 0.7};
    lion(n, p.data(), m.data(), g.data(), s, {}, {{1, 2}, 7, 0});
    lion(cut, p2.data(), m2.data(), g.data(), s, {}, {{1, 2}, 7, 0});
    lion(n - cut, p2.data() + cut, m2.data() + cut, g.data() + cut, s, {}, {{1, 2}, 7, cut});
    EXPECT_TRUE(p == p2 && m == m2);
    Narrow other = m2.clone();
    lion(n, p2.data(), m2.data(), g.data(), s, {}, {{1, 2}, 8, 0});
    lion(n, p.data(), other.data(), g.data(), s, {}, {{1, 2}, 9, 0});
    EXPECT_FALSE(m2 == other) << "each update draws noise of its own";
  });
}

TEST(UpdateKernels, NarrowStatesKeepWhatIsNoNumber) {
  on_every_target([] {
    const float odd[] = {std::nanf(""), -std::nanf(""), HUGE_VALF, -HUGE_VALF, 0.0f, -0.0f};
    Floats p(6), g(6);
    Narrow m(6);
    for (std::int64_t i = 0; i < 6; ++i) g[i] = odd[i];
    sgd(6, p.data(), m.data(), g.data(), {.lr = 0, .momentum = 0.9, .first = true}, {}, {{1, 2}, 1, 0});
    for (std::int64_t i = 0; i < 6; ++i) {
      const float kept = widen_bf16(m[i]);
      EXPECT_TRUE(std::isnan(odd[i]) ? std::isnan(kept) : kept == odd[i]) << odd[i] << " became " << kept;
    }
  });
}

// The mean is right over time, not only over elements. A second moment loses a thousandth at each update, less than half of the
// distance of its neighbours. Rounding to nearest would never change it. Each update adds a variance of p (1 - p) squared
// distances; p is the loss in distances. Over a binade of logarithmically even numbers that is 0.076 * 2^-14 of its square.
TEST(UpdateKernels, NarrowStatesFollowOverManyUpdates) {
  constexpr std::int64_t n = 4096;
  constexpr int kUpdates = 1000;
  Floats p(n);
  const Floats g(n);
  Narrow m(n), v(n);
  std::vector<double> start;
  for (std::int64_t i = 0; i < n; ++i) {
    v[i] = narrow_bf16(static_cast<float>(std::exp2(static_cast<double>(i) / n)));
    start.push_back(widen_bf16(v[i]));
  }
  const AdamWStep s{.lr = 0, .beta2 = 0.999};
  for (int t = 1; t <= kUpdates; ++t)
    adamw(n, p.data(), m.data(), v.data(), g.data(), s, {}, {{3, 9}, static_cast<std::uint64_t>(t), 0});
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double error = double{widen_bf16(v[i])} / (start[static_cast<std::size_t>(i)] * std::pow(0.999, kUpdates)) - 1;
    sum += error;
    squares += error * error;
  }
  const double theory = std::sqrt(kUpdates * 0.076 * 0x1p-14), spread = std::sqrt(squares / n);
  EXPECT_LE(std::abs(sum / n), 4 * theory / std::sqrt(n)) << "a bias";
  EXPECT_LE(spread, 1.5 * theory);
  EXPECT_GE(spread, theory / 1.5);
}

// Without a key.
TEST(UpdateKernels, NarrowStatesAreRoundedToTheNearestWhereThatIsForced) {
  on_every_target([] {
    constexpr std::int64_t n = 3001;
    const Floats g = random_floats(n, 4);
    Floats p(n);
    Narrow buffer(n);
    sgd(n, p.data(), buffer.data(), g.data(), {.momentum = 0.9, .first = true}, {}, {.key = {}, .update = 7});
    for (std::int64_t i = 0; i < n; ++i) {  // of two that are as near it takes the larger one
      const float most = std::abs(widen_bf16(narrow_bf16(g[i])) - g[i]);
      EXPECT_EQ(std::abs(widen_bf16(buffer[i]) - g[i]), most) << g[i];
    }
  });
}

struct Codes {
  explicit Codes(std::int64_t n)
      : codes(static_cast<std::size_t>(n)), scales(static_cast<std::size_t>(ceil_div(n, ops::kCodedBlock))) {}
  StateNumbers state(std::int64_t from = 0) { return {codes.data() + from, scales.data() + from / ops::kCodedBlock}; }
  friend bool operator==(const Codes&, const Codes&) = default;
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;
};

// States of each width, and parameters and gradients of both. The result follows from the same update of fp32 parameters.
TEST(UpdateKernels, TheReportedStepIsThatOfTheUpdateBeforeItIsRounded) {
  on_every_target([] {
    constexpr std::int64_t n = 20011;
    const auto tiles = [] { return std::vector<Change>(static_cast<std::size_t>(change_scratch(n).n) / sizeof(Change)); };
    const StochasticRounding rounding{{3, 9}, 5, 0};
    const Floats numbers = random_floats(n, 1);
    Narrow start(n), g(n);
    for (std::int64_t i = 0; i < n; ++i) {
      start[i] = narrow_bf16(numbers[i]);
      g[i] = narrow_bf16(0.01f * static_cast<float>(i % 7 - 3));
    }
    const SgdStep step{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .first = true};
    double squares = 0, moved = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const double p = widen_bf16(start[i]), d = widen_bf16(g[i]) + 0.1 * p;
      squares += p * p;
      moved += 0.01 * d * d;
    }
    Floats exact(n);
    Narrow narrow(n);
    Codes coded(n);
    for (const StateNumbers buffer : {StateNumbers(exact.data()), StateNumbers(narrow.data()), coded.state()}) {
      Narrow parameters = start.clone();
      Floats wide(n);
      for (std::int64_t i = 0; i < n; ++i) wide[i] = widen_bf16(start[i]);
      for (const StateNumbers p : {StateNumbers(wide.data()), StateNumbers(parameters.data())}) {
        auto sums = tiles();
        sgd(n, p, buffer, g.data(), step, {}, rounding, sums.data());
        const Change change = sum_of(sums.data(), n, {});
        EXPECT_NEAR(change.before, squares, 1e-5 * squares);
        EXPECT_NEAR(change.step, moved, 1e-3 * moved);
      }
    }
  });
}

// The numbers of a state: an update with rate -1 and momentum 1 adds them to zeros.
Floats numbers_of(Codes state, std::int64_t n) {
  Floats read(n);
  const Floats zeros(n);
  sgd(n, read.data(), state.state(), zeros.data(), {.lr = -1, .momentum = 1});
  return read;
}

// Each state is one of the two neighbours among the numbers that its block can hold. The parameters see the unrounded state.
TEST(UpdateKernels, CodedStatesAreWithinAStepOfTheirBlock) {
  on_every_target([] {
    const std::int64_t n = 5000;
    const Floats g = random_floats(n, 1);
    Floats p = random_floats(n, 2), q = p.clone(), exact_m(n), exact_v(n);
    for (std::int64_t i = 0; i < n; ++i) exact_v[i] = exact_m[i] = 0;
    Codes m(n), v(n);
    const AdamWStep s{.weight_decay = 0.1, .bias_correction1 = 0.1, .bias_correction2 = 0.001};
    adamw(n, p.data(), m.state(), v.state(), g.data(), s, {}, {{17, 4}, 1, 0});
    adamw(n, q.data(), exact_m.data(), exact_v.data(), g.data(), s);
    EXPECT_TRUE(p == q);
    const Floats got_m = numbers_of(m, n);
    std::int64_t wrong = 0, zeros = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const double step =
          std::max(double{std::abs(exact_m[i])} / 8, double{m.scales[static_cast<std::size_t>(i / 256)]} * 0x1p-17);
      wrong += !(std::abs(got_m[i] - exact_m[i]) <= 1.001 * step) ||
               (got_m[i] != 0 && std::signbit(got_m[i]) != std::signbit(exact_m[i]));
      zeros += exact_v[i] > 0 && v.codes[static_cast<std::size_t>(i)] == 0;
    }
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(zeros, 0) << "a second moment never becomes 0";
  });
}

TEST(UpdateKernels, CodedStatesInPiecesGiveTheBitsOfTheWhole) {
  on_every_target([] {
    const std::int64_t n = 40001, cut = 48 * ops::kCodedBlock;
    const Floats g = random_floats(n, 1);
    Floats p = random_floats(n, 2), p2 = p.clone();
    Codes m(n), m2(n);
    for (std::uint64_t update = 1; update <= 3; ++update) {
      const LionStep s{.weight_decay = 0.1, .gradient_scale = 0.7};
      lion(n, p.data(), m.state(), g.data(), s, {}, {{1, 2}, update, 0});
      lion(cut, p2.data(), m2.state(), g.data(), s, {}, {{1, 2}, update, 0});
      lion(n - cut, p2.data() + cut, m2.state(cut), g.data() + cut, s, {}, {{1, 2}, update, cut});
    }
    EXPECT_TRUE(p == p2 && m == m2);
  });
}

// The mean over updates is right: half of a step is not lost.
TEST(UpdateKernels, CodedStatesHaveNoBias) {
  on_every_target([] {
    const std::int64_t n = 256 * 64;
    Floats p(n), g(n);
    for (std::int64_t i = 0; i < n; ++i) g[i] = i % 256 == 0 ? 1.0f : 0.3f + 0.2f * static_cast<float>(i % 256) / 256;
    Codes m(n);
    sgd(n, p.data(), m.state(), g.data(), {.lr = 0, .momentum = 0.5, .first = true}, {}, {{5, 6}, 1, 0});
    const Floats got = numbers_of(m, n);
    double sum = 0, want = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += got[i], want += g[i];
    EXPECT_NEAR(sum / want, 1, 1e-3);
  });
}

TEST(UpdateKernels, CodedStatesKeepWhatIsNoNumber) {
  on_every_target([] {
    Floats p(300), g(300);
    g[7] = std::nanf("");
    Codes m(300);
    sgd(300, p.data(), m.state(), g.data(), {.lr = 0, .momentum = 0.9, .first = true}, {}, {{1, 2}, 1, 0});
    const Floats got = numbers_of(m, 300);
    EXPECT_TRUE(std::isnan(got[7]));
    EXPECT_EQ(got[299], 0) << "another block";
  });
}

TEST(UpdateKernels, Clip) {
  EXPECT_EQ(clip_coefficient(0.5, 1), 1);
  EXPECT_DOUBLE_EQ(clip_coefficient(5, 1), 1 / (5 + 1e-6));
  EXPECT_EQ(clip_coefficient(5, 0), 1);
  for (const double limit : {0.0, 1.0}) {
    EXPECT_TRUE(std::isnan(clip_coefficient(std::nan(""), limit)));
    EXPECT_TRUE(std::isnan(clip_coefficient(HUGE_VAL, limit)));
  }
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
