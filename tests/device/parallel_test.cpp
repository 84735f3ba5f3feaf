#include "device/cpu/parallel.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "device/cpu/gemm.h"

namespace plimsoll::cpu {
namespace {

TEST(Parallel, RunsEveryTaskOnce) {
  std::vector<int> runs(1000);
  parallel_for(1000, [&](std::int64_t task) { ++runs[static_cast<std::size_t>(task)]; });
  EXPECT_EQ(runs, std::vector<int>(1000, 1));
}

TEST(Parallel, ATeamGrowsBetweenRounds) {
  const int threads = thread_count();
  for (const int team : {1, 2, 3, 4, 6, 8}) {
    set_thread_count(team);
    for (int round = 0; round < 20; ++round) {
      std::vector<int> runs(100);
      parallel_for(100, [&](std::int64_t task) { ++runs[static_cast<std::size_t>(task)]; });
      ASSERT_EQ(runs, std::vector<int>(100, 1)) << "round " << round << " of a team of " << team;
    }
  }
  set_thread_count(threads);
}

TEST(Parallel, EveryThreadFlushesDenormals) {
  volatile float tiny = std::numeric_limits<float>::min();
  std::vector<float> halves(1000, 1.0F);
  parallel_for(1000, [&](std::int64_t task) { halves[static_cast<std::size_t>(task)] = tiny * 0.5F; });
  EXPECT_EQ(halves, std::vector<float>(1000, 0.0F));
  EXPECT_EQ(tiny * 0.5F, 0.0F) << "the calling thread";
}

// The library's products run on the same threads.
TEST(Parallel, ProductsFlushDenormals) {
  const GemmShape shape{.m = 64, .n = 64, .k = 64};
  const Gemm gemm(shape, thread_count());
  parallel_for(1, [](std::int64_t) {});
  const std::size_t count = 64 * 64;
  struct alignas(64) Line {
    float values[16];
  };
  std::vector<Line> a(count / 16), b(count / 16), c(count / 16),
      scratch(static_cast<std::size_t>(gemm.plan().scratch.n) / 64 + 1);
  for (Line& line : a) std::fill(std::begin(line.values), std::end(line.values), std::numeric_limits<float>::denorm_min() * 1024);
  for (Line& line : b) std::fill(std::begin(line.values), std::end(line.values), 1.0F);
  gemm.run(a.front().values, b.front().values, nullptr, c.front().values, reinterpret_cast<std::byte*>(scratch.data()));
  for (const Line& line : c) {
    for (const float value : line.values) ASSERT_EQ(value, 0.0F);
  }
}

}  // namespace
}  // namespace plimsoll::cpu
