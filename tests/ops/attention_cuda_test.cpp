// The tiles that the blocks of a GPU's attention kernels take, with heads in more than one group, and products by warpgroups.
#include <gtest/gtest.h>

#include <set>
#include <tuple>
#include <utility>

#include "ops/attention/attention.h"
#include "ops/attention/call.cuh"
#include "ops/cases/bound_case.h"

namespace plimsoll::cuda {
namespace {

TEST(BlockWork, TakesEachTileOnceAndLongOnesOfAGroupFirst) {
  for (std::int32_t heads = 1; heads <= 7; ++heads) {
    for (std::int32_t together = 1; together <= heads; ++together) {
      BlockOrder order({.tokens = 5, .heads = heads, .head_size = 8, .all_heads = heads, .scale = 1}, 1);
      order.heads_together = together;
      std::set<std::pair<std::int32_t, std::int32_t>> taken;
      std::tuple<std::int32_t, std::int32_t> before{-1, -1};
      for (unsigned block = 0; block < order.blocks(); ++block) {
        const BlockWork work(order, block);
        EXPECT_TRUE(work.head >= 0 && work.head < heads && work.turn >= 0 && work.turn < order.tiles);
        EXPECT_TRUE(taken.emplace(work.head, work.turn).second);
        const std::tuple<std::int32_t, std::int32_t> group_and_turn{work.head / together, work.turn};
        EXPECT_LE(before, group_and_turn);
        before = group_and_turn;
      }
      EXPECT_EQ(taken.size(), static_cast<std::size_t>(5 * heads));
    }
  }
}

TEST(BlockOrder, HeadsTogetherFitTheCache) {
  const AttentionExtents few{.tokens = 1024, .heads = 12, .head_size = 64, .all_heads = 24, .scale = 1};
  EXPECT_EQ(BlockOrder(few, 128).heads_together, 24);
  const AttentionExtents many{.tokens = 1024, .heads = 12, .head_size = 64, .all_heads = 384, .scale = 1};
  EXPECT_EQ(BlockOrder(many, 128).heads_together, 64);
  const AttentionExtents wide{.tokens = 1 << 20, .heads = 1, .head_size = 128, .all_heads = 3, .scale = 1};
  EXPECT_EQ(BlockOrder(wide, 128).heads_together, 1);
}

// The emulation rounds a product by a warpgroup like one by a warp.
TEST(EmulatedAttention, HasTheSameBitsByWarpgroupsAndByWarps) {
  for (const OpDef* op : {&ops::kAttention, &ops::kAttentionBackward}) {
    int narrow = 0;
    for (const test::OpCase& a_case : test::find_cases(*op)->cases) {
      if (a_case.benchmark || a_case.cpu_only || a_case.inputs[0].type.dtype == DType::f32) continue;
      SCOPED_TRACE(test::describe(*op, a_case));
      const std::vector<test::Numbers> inputs = test::fill_inputs(a_case, 1);
      const auto bits = [&](const test::Backend& backend) {
        test::BoundCase bound(*op, a_case, inputs, {.backend = &backend});
        bound.run();
        return bound.output_bytes();
      };
      EXPECT_TRUE(bits(test::kCuda) == bits(test::kCudaMma));
      ++narrow;
    }
    EXPECT_GT(narrow, 0);
  }
}

}  // namespace
}  // namespace plimsoll::cuda
