#include "ops/dropout/kernels.h"

#include "ops/kernel_buffers.h"

namespace plimsoll::cpu {
namespace {

struct Case {
  std::int64_t batch, elements;
};
const std::vector<Case> kCases{{1, 1}, {3, 7}, {2, 64}, {5, 1030}, {2, 40001}, {300, 96}};

std::vector<std::uint32_t> ids_of(std::int64_t batch) {
  std::vector<std::uint32_t> ids;
  for (std::int64_t b = 0; b < batch; ++b) ids.insert(ids.end(), {4, static_cast<std::uint32_t>(1000 - b)});
  return ids;
}

bool kept(const DropoutNoise& noise, std::int64_t row, std::int64_t element) {
  const auto group = static_cast<std::uint64_t>(element) / 4;
  const PhiloxWords words = philox4x32(noise.key, {static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(group >> 32),
                                                   noise.sample_ids[2 * row + 1], noise.sample_ids[2 * row]});
  return unit_float(words[static_cast<std::size_t>(element % 4)]) >= noise.probability;
}

TEST(DropoutKernels, MaskIsTheScalarDefinition) {
  on_every_target([] {
    for (const Case& c : kCases) {
      const auto ids = ids_of(c.batch);
      const DropoutNoise noise{0.3f, {11, 22}, ids.data()};
      const Floats x = random_floats(c.batch * c.elements, 1);
      Floats y(x.size()), over_x = x.clone();
      dropout(c.batch, c.elements, noise, x.data(), y.data());
      bool same = true;
      for (std::int64_t i = 0; i < x.size(); ++i) {
        same &= y[i] == (kept(noise, i / c.elements, i % c.elements) ? x[i] * (1.0f / (1.0f - 0.3f)) : 0.0f);
      }
      EXPECT_TRUE(same) << c.batch << " x " << c.elements;
      dropout(c.batch, c.elements, noise, over_x.data(), over_x.data());
      EXPECT_TRUE(over_x == y);
    }
  });
}

TEST(DropoutKernels, KeepsTheExpectedShare) {
  const std::vector<std::uint32_t> ids{0, 5};
  const std::int64_t n = 400000;
  const Floats ones(n, 1);
  for (const float p : {0.1f, 0.5f, 0.9f}) {
    const DropoutNoise noise{p, {3, 4}, ids.data()};
    Floats y(n);
    dropout(1, n, noise, ones.data(), y.data());
    double kept = 0;
    for (std::int64_t i = 0; i < n; ++i) kept += y[i] != 0;
    EXPECT_NEAR(kept / n, 1 - p, 4 * std::sqrt(p * (1 - p) / n));
  }
}

TEST(DropoutKernels, ASampleKeepsItsMaskInAnyMicroBatch) {
  const auto ids = ids_of(4);
  const DropoutNoise all{0.5f, {1, 2}, ids.data()}, third{0.5f, {1, 2}, ids.data() + 4};
  const Floats x = random_floats(4 * 501, 1);
  Floats y(x.size()), one(501);
  dropout(4, 501, all, x.data(), y.data());
  dropout(1, 501, third, x.data() + 2 * 501, one.data());
  for (std::int64_t i = 0; i < 501; ++i) EXPECT_EQ(one[i], y[2 * 501 + i]);
}

TEST(DropoutKernels, ProbabilityZeroCopies) {
  const Floats x = random_floats(1000, 1);
  Floats y(1000);
  dropout(10, 100, DropoutNoise{}, x.data(), y.data());
  EXPECT_TRUE(x == y);
}

TEST(DropoutKernels, ThreadsChangeNoBit) {
  const auto ids = ids_of(3);
  const Floats x = random_floats(3 * 50001, 1);
  expect_same_on_threads([&] {
    Floats y(x.size());
    dropout(3, 50001, {0.2f, {1, 2}, ids.data()}, x.data(), y.data());
    return y;
  });
}

}  // namespace
}  // namespace plimsoll::cpu
