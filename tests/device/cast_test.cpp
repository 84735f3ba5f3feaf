#include "device/cpu/cast.h"

#include "ops/kernel_buffers.h"
#include "tensor/half.h"

namespace plimsoll::cpu {
namespace {

bool is_nan_f16(std::uint16_t bits) { return (bits & 0x7fffu) > 0x7c00u; }
bool is_nan_bf16(std::uint16_t bits) { return (bits & 0x7fffu) > 0x7f80u; }

// Bit patterns of fp32 at, next to and halfway between all 16-bit values, and random ones.
Floats telling_floats() {
  std::vector<float> values;
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const std::uint32_t bf16 = i << 16, f16 = std::bit_cast<std::uint32_t>(widen_f16(static_cast<std::uint16_t>(i)));
    for (const std::uint32_t offset : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u}) values.push_back(std::bit_cast<float>(bf16 + offset));
    for (const std::uint32_t offset : {0u, 1u, 0x0fffu, 0x1000u, 0x1001u}) values.push_back(std::bit_cast<float>(f16 + offset));
    values.push_back(std::bit_cast<float>(random_word(1, i)));
    // Halfway between neighbouring subnormals of f16.
    if (i < 0x400) values.push_back((static_cast<float>(i) + 0.5f) * 0x1p-24f);
  }
  Floats x(static_cast<std::int64_t>(values.size()));
  std::memcpy(x.data(), values.data(), values.size() * sizeof(float));
  return x;
}

// Handles subnormal numbers too. Threads that run kernels flush them to zero in arithmetic, including conversions.
double magnitude_of(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x) & 0x7fffffffu;
  return bits < 0x00800000u ? static_cast<double>(bits) * 0x1p-149 : double{std::bit_cast<float>(bits)};
}

// Rounds by comparing distances in fp64: independent of the bit arithmetic that it judges.
std::uint16_t nearest_by_search(float x, float (*widen)(std::uint16_t), std::uint16_t infinity) {
  const double magnitude = magnitude_of(x);
  std::uint16_t low = 0, high = infinity;  // widen(low) <= magnitude < widen(high)
  if (std::isinf(x)) return infinity;
  while (high - low > 1) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    (magnitude_of(widen(middle)) <= magnitude ? low : high) = middle;
  }
  const double below = magnitude_of(widen(low));
  // The step past the largest finite value is as wide as the one before it.
  const double above =
      high == infinity ? below + (below - magnitude_of(widen(static_cast<std::uint16_t>(low - 1)))) : magnitude_of(widen(high));
  const double to_low = magnitude - below, to_high = above - magnitude;
  if (to_low != to_high) return to_low < to_high ? low : high;
  return low % 2 == 0 ? low : high;
}

Elements as_f16(Guarded<std::uint16_t>& bits) { return {bits.bytes(), DType::f16}; }

void check_narrowing(const Floats& x, DType to, float (*widen)(std::uint16_t), std::uint16_t infinity,
                     bool (*is_nan)(std::uint16_t)) {
  on_every_target([&] {
    Guarded<std::uint16_t> y(x.size());
    cast(x.size(), x.data(), {y.bytes(), to});
    int failures = 0;
    for (std::int64_t i = 0; i < x.size() && failures < 3; ++i) {
      const std::uint32_t bits = std::bit_cast<std::uint32_t>(x[i]);
      const bool right = std::isnan(x[i]) ? is_nan(y[i]) && (y[i] >> 15) == (bits >> 31)
                                          : y[i] == (nearest_by_search(x[i], widen, infinity) | (bits >> 16 & 0x8000u));
      if (!right) ADD_FAILURE() << std::hex << bits << " became " << y[i] << (++failures, "");
    }
  });
}

TEST(Cast, NarrowsToNearestEven) {
  const Floats x = telling_floats();
  check_narrowing(x, DType::bf16, widen_bf16, 0x7f80, is_nan_bf16);
  check_narrowing(x, DType::f16, widen_f16, 0x7c00, is_nan_f16);
}

TEST(Cast, WidensExactlyAndBack) {
  on_every_target([] {
    const std::int64_t n = 65536;
    Guarded<std::uint16_t> all(n), back(n);
    for (std::int64_t i = 0; i < n; ++i) all[i] = static_cast<std::uint16_t>(i);
    Floats wide(n);
    cast(n, all.data(), wide.data());
    cast(n, wide.data(), back.data());
    for (std::int64_t i = 0; i < n; ++i) {
      if (!is_nan_bf16(all[i])) {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(wide[i]), static_cast<std::uint32_t>(i) << 16);
        ASSERT_EQ(back[i], i);
      } else {
        ASSERT_TRUE(std::isnan(wide[i]));
      }
    }
    cast(n, as_f16(all), wide.data());
    cast(n, wide.data(), as_f16(back));
    for (std::int64_t i = 0; i < n; ++i) {
      const bool right = is_nan_f16(all[i]) ? std::isnan(wide[i]) : wide[i] == widen_f16(all[i]) && back[i] == all[i];
      ASSERT_TRUE(right) << i;
    }
  });
}

TEST(Cast, TailsAndBodiesAgree) {
  const Floats x = random_floats(16385 + 13, 5, 1e-5f);
  on_every_target([&] {
    for (const std::int64_t n : {std::int64_t{1}, std::int64_t{15}, std::int64_t{33}, x.size()}) {
      Guarded<std::uint16_t> bf16(n), f16(n);
      cast(n, x.data(), bf16.data());
      cast(n, x.data(), as_f16(f16));
      bool same = true;
      for (std::int64_t i = 0; i < n; ++i) same &= bf16[i] == narrow_bf16(x[i]) && f16[i] == narrow_f16(x[i]);
      EXPECT_TRUE(same);
    }
  });
}

}  // namespace
}  // namespace plimsoll::cpu
