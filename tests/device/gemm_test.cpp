#include "device/cpu/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "device/cpu/gemm_tiled.h"
#include "device/cpu/parallel.h"

namespace plimsoll::cpu {
namespace {

struct Free {
  void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{64}); }
};

// 64-byte aligned memory that starts `shift` cache lines into its allocation, followed by a sentinel.
class Buffer {
 public:
  static constexpr std::size_t kGuard = 4096;
  explicit Buffer(std::int64_t bytes, std::int64_t shift = 0, unsigned char fill = 0xFF)
      : bytes_(static_cast<std::size_t>(bytes)),
        shift_(static_cast<std::size_t>(shift) * 64),
        memory_(static_cast<std::byte*>(::operator new[](bytes_ + shift_ + kGuard, std::align_val_t{64}))) {
    std::memset(memory_.get(), fill, bytes_ + shift_);
    std::memset(memory_.get() + shift_ + bytes_, 0x5A, kGuard);
  }
  std::byte* bytes() const { return memory_.get() + shift_; }
  float* floats() const { return reinterpret_cast<float*>(bytes()); }
  bool intact() const {
    for (std::size_t i = 0; i < kGuard; ++i) {
      if (memory_.get()[shift_ + bytes_ + i] != std::byte{0x5A}) return false;
    }
    return true;
  }

 private:
  std::size_t bytes_, shift_;
  std::unique_ptr<std::byte[], Free> memory_;
};

void fill(float* to, std::int64_t count, unsigned seed) {
  std::minstd_rand random(seed);
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(static_cast<double>(random()) / 2147483647.0 - 0.5);
}

struct Operands {
  explicit Operands(const GemmShape& s, std::int64_t shift = 0)
      : a(s.batch * s.m * s.k * 4, shift),
        b(s.batch * s.k * s.n * 4, 2 * shift),
        bias(s.n * 4, shift),
        c(s.batch * s.m * s.n * 4, shift) {
    fill(a.floats(), s.batch * s.m * s.k, 1);
    fill(b.floats(), s.batch * s.k * s.n, 2);
    fill(bias.floats(), s.n, 3);
    fill(c.floats(), s.batch * s.m * s.n, 4);
  }
  Buffer a, b, bias, c;
};

double expected(const GemmShape& s, const Operands& o, std::int64_t e, std::int64_t i, std::int64_t j) {
  const float *a = o.a.floats() + e * s.m * s.k, *b = o.b.floats() + e * s.k * s.n;
  double sum = s.bias ? o.bias.floats()[j] : 0.0;
  if (s.accumulate) sum += o.c.floats()[(e * s.m + i) * s.n + j];
  for (std::int64_t p = 0; p < s.k; ++p) {
    sum +=
        static_cast<double>(s.transpose_a ? a[p * s.m + i] : a[i * s.k + p]) * (s.transpose_b ? b[j * s.k + p] : b[p * s.n + j]);
  }
  return sum;
}

// Compares every element of small results and some hundred of large ones.
void expect_product(const GemmShape& s, const Operands& before, const float* c) {
  const std::int64_t count = s.batch * s.m * s.n, step = std::max<std::int64_t>(1, count / 997);
  const double tolerance = 2e-6 * std::sqrt(static_cast<double>(s.k)) + 2e-6;
  for (std::int64_t at = 0; at < count; at += step) {
    const std::int64_t e = at / (s.m * s.n), i = at / s.n % s.m, j = at % s.n;
    ASSERT_NEAR(c[at], expected(s, before, e, i, j), tolerance) << "element " << e << ", " << i << ", " << j;
  }
}

std::vector<float> result(const GemmShape& s, std::int64_t shift, unsigned char poison, bool tiled) {
  const Operands operands(s, shift), before(s);
  const Gemm gemm(s, thread_count());
  const std::int64_t bytes = tiled ? tiled_gemm_scratch(s, thread_count()).n : gemm.plan().scratch.n;
  const Buffer scratch(bytes, shift, poison);
  const float *a = operands.a.floats(), *b = operands.b.floats(), *bias = s.bias ? operands.bias.floats() : nullptr;
  float* c = operands.c.floats();
  if (tiled) {
    run_tiled_gemm(s, thread_count(), a, b, bias, c, scratch.bytes());
    const std::byte* const end = scratch.bytes() + bytes;
    const bool used =
        std::any_of(end - std::min<std::int64_t>(bytes, 8), end, [&](std::byte b) { return b != std::byte{poison}; });
    EXPECT_TRUE(used || bytes == 0) << "more scratch than it uses";
  } else {
    gemm.run(a, b, bias, c, scratch.bytes());
  }
  expect_product(s, before, c);
  EXPECT_TRUE(scratch.intact() && operands.c.intact() && operands.a.intact() && operands.b.intact());
  return {c, c + s.batch * s.m * s.n};
}

void check(const GemmShape& s) {
  SCOPED_TRACE("m " + std::to_string(s.m) + " n " + std::to_string(s.n) + " k " + std::to_string(s.k) + " batch " +
               std::to_string(s.batch) + (s.transpose_a ? " T" : " N") + (s.transpose_b ? "T" : "N") + (s.bias ? " bias" : "") +
               (s.accumulate ? " accumulate" : "") + ": " + plan_gemm(s, thread_count()).implementation);
  for (const bool tiled : {false, true}) {
    const std::vector<float> first = result(s, 0, 0xFF, tiled);
    if (testing::Test::HasFatalFailure()) return;
    const std::vector<float> second = result(s, 3, 0x7E, tiled);
    EXPECT_EQ(std::memcmp(first.data(), second.data(), first.size() * sizeof(float)), 0) << "bits depend on addresses or scratch";
  }
}

TEST(Gemm, EveryFormOfSmallAndOddShapes) {
  const std::int64_t dims[][3] = {{1, 1, 1},    {1, 9, 16},   {7, 1, 9},    {7, 9, 1},   {5, 3, 7},
                                  {16, 16, 16}, {13, 65, 31}, {64, 16, 48}, {33, 3, 257}};
  for (const auto& d : dims) {
    for (int form = 0; form < 16; ++form) {
      check({.m = d[0],
             .n = d[1],
             .k = d[2],
             .transpose_a = (form & 1) != 0,
             .transpose_b = (form & 2) != 0,
             .bias = (form & 4) != 0,
             .accumulate = (form & 8) != 0});
    }
  }
}

TEST(Gemm, Batches) {
  for (int form = 0; form < 8; ++form) {
    check({.batch = 6,
           .m = 37,
           .n = 16,
           .k = 64,
           .transpose_a = (form & 1) != 0,
           .transpose_b = (form & 2) != 0,
           .bias = (form & 4) != 0,
           .accumulate = (form & 4) != 0});
  }
}

// More than one block of k, strip of columns and band of rows, and panels and tiles that do not fill.
TEST(Gemm, LargeShapes) {
  for (int form = 0; form < 4; ++form) {
    const bool transpose_a = (form & 1) != 0, transpose_b = (form & 2) != 0;
    check({.m = 523, .n = 801, .k = 1601, .transpose_a = transpose_a, .transpose_b = transpose_b, .bias = true});
    check({.m = 2065, .n = 97, .k = 271, .transpose_a = transpose_a, .transpose_b = transpose_b, .accumulate = true});
  }
}

TEST(Gemm, PackedShapes) {
  check({.m = 515, .n = 1024, .k = 100, .bias = true});
  check({.m = 512, .n = 200, .k = 1543, .accumulate = true});
  check({.m = 768, .n = 1024, .k = 131, .transpose_a = true, .accumulate = true});
}

TEST(Gemm, TheImplementationFollowsTheShape) {
  if (plan_gemm({.m = 64, .n = 64, .k = 64}, 1).implementation.find("avx512") == std::string::npos) GTEST_SKIP();
  bool intel = false;
#ifdef __x86_64__
  intel = __builtin_cpu_is("intel") != 0;
#endif
  const auto kind = [](const GemmShape& s) {
    const std::string implementation = plan_gemm(s, 2).implementation;
    return implementation.substr(implementation.rfind(' ') + 1);
  };
  EXPECT_EQ(kind({.m = 768, .n = 3072, .k = 1024, .transpose_a = true, .accumulate = true}), intel ? "tiled" : "packed_b");
  EXPECT_EQ(kind({.m = 1024, .n = 3072, .k = 768}), intel ? "tiled" : "packed_b");
  EXPECT_EQ(kind({.m = 1024, .n = 768, .k = 768}), intel ? "tiled" : "plain");
  EXPECT_EQ(kind({.m = 1024, .n = 3072, .k = 768, .transpose_b = true}), intel ? "tiled" : "plain");
  EXPECT_EQ(kind({.m = 256, .n = 3072, .k = 768}), intel ? "packed_b" : "plain");
  EXPECT_EQ(kind({.m = 256, .n = 4096, .k = 768}), "plain");
  EXPECT_EQ(kind({.m = 32, .n = 3072, .k = 768}), "plain");
}

TEST(Gemm, PlanIsAPureFunctionAndLeavesTheThreadsAlone) {
  const GemmShape shape{.m = 512, .n = 768, .k = 768, .transpose_a = true};
  const int threads = thread_count();
  const GemmPlan one = plan_gemm(shape, 1), two = plan_gemm(shape, 2), again = plan_gemm(shape, 1);
  EXPECT_EQ(thread_count(), threads);
  EXPECT_EQ(one.implementation, again.implementation);
  EXPECT_EQ(one.scratch, again.scratch);
  EXPECT_LE(one.scratch, two.scratch);
  EXPECT_EQ(one.scratch.n % 64, 0);
}

// A plan may request any batch. The library would divide by zero.
TEST(Gemm, LeavesWhatPasses32BitsToOurKernels) {
  const GemmShape shape{.m = std::int64_t{1} << 33, .n = 768, .k = 768};
  EXPECT_FALSE(LibraryGemm::plan_of(shape, 2));
  EXPECT_EQ(plan_gemm(shape, 2).primitives, 0);
}

TEST(Gemm, EqualShapesShareOnePrimitiveAndAgree) {
  const GemmShape shape{.m = 40, .n = 50, .k = 60};
  const Gemm first(shape, thread_count()), second(shape, thread_count());
  const Operands x(shape), y(shape);
  const Buffer scratch(first.plan().scratch.n);
  first.run(x.a.floats(), x.b.floats(), nullptr, x.c.floats(), scratch.bytes());
  second.run(y.a.floats(), y.b.floats(), nullptr, y.c.floats(), scratch.bytes());
  EXPECT_EQ(std::memcmp(x.c.floats(), y.c.floats(), 40 * 50 * 4), 0);
}

TEST(Gemm, TiledBitsDoNotDependOnThreads) {
  const GemmShape shape{.m = 203, .n = 301, .k = 517, .bias = true};
  const int threads = thread_count();
  std::set<std::string> results;
  for (const int team : {1, 2, 3}) {
    set_thread_count(team);
    const Operands o(shape);
    const Buffer scratch(tiled_gemm_scratch(shape, team).n);
    run_tiled_gemm(shape, team, o.a.floats(), o.b.floats(), o.bias.floats(), o.c.floats(), scratch.bytes());
    results.emplace(reinterpret_cast<const char*>(o.c.floats()), static_cast<std::size_t>(shape.m * shape.n) * sizeof(float));
  }
  set_thread_count(threads);
  EXPECT_EQ(results.size(), 1U);
}

}  // namespace
}  // namespace plimsoll::cpu
