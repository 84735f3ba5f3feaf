// The tiles that the blocks of a GPU's attention kernels take, with heads in more than one group.
#include <gtest/gtest.h>

#include <set>
#include <tuple>
#include <utility>

#include "ops/attention/call.cuh"

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

}  // namespace
}  // namespace plimsoll::cuda
