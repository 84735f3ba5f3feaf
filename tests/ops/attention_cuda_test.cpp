// Attention on a GPU: the tiles that blocks take, products by warpgroups, and documents of packed rows.
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
      BlockOrder order({.batch = 1, .tokens = 5, .heads = heads, .group = 1, .head_size = 8}, 1);
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
  const AttentionExtents few{.batch = 2, .tokens = 1024, .heads = 12, .group = 1, .head_size = 64};
  EXPECT_EQ(BlockOrder(few, 128).heads_together, 24);
  const AttentionExtents many{.batch = 32, .tokens = 1024, .heads = 12, .group = 1, .head_size = 64};
  EXPECT_EQ(BlockOrder(many, 128).heads_together, 64);
  EXPECT_EQ(BlockOrder(many, 128, 4).heads_together, 16);
  EXPECT_EQ(BlockOrder(many, 128, 4).all_heads, 96);
  const AttentionExtents wide{.batch = 3, .tokens = 1 << 20, .heads = 1, .group = 1, .head_size = 128};
  EXPECT_EQ(BlockOrder(wide, 128).heads_together, 1);
}

}  // namespace
}  // namespace plimsoll::cuda

namespace plimsoll::test {
namespace {

// The emulation rounds a product by a warpgroup like one by a warp.
TEST(EmulatedAttention, HasTheSameBitsByWarpgroupsAndByWarps) {
  for (const OpDef* op : {&ops::kAttention, &ops::kAttentionBackward}) {
    int narrow = 0;
    for (const OpCase& a_case : find_cases(*op)->cases) {
      const bool to_later = a_case.attributes.text().find("causal=false") != std::string::npos;  // refused on a GPU
      if (a_case.benchmark || to_later || a_case.inputs[0].type.dtype == DType::f32) continue;
      SCOPED_TRACE(describe(*op, a_case));
      const std::vector<Numbers> inputs = fill_inputs(a_case, 1);
      const auto bits = [&](const Backend& backend) {
        BoundCase bound(*op, a_case, inputs, {.backend = &backend});
        bound.run();
        return bound.output_bytes();
      };
      EXPECT_TRUE(bits(kCuda) == bits(kCudaMma));
      ++narrow;
    }
    EXPECT_GT(narrow, 0);
  }
}

// Rows of three documents.
struct PackedRows {
  std::int64_t head_size;
  DType dtype;
  static constexpr std::int64_t kTokens = 200, kHeads = 4, kKvHeads = 2;

  ops::AttentionAttributes attributes() const {
    return {{kHeads, kKvHeads, true}, 0, 0, /*segments=*/true, 0.2, philox_key(7, 11), dtype};
  }
  CaseInput of_heads(std::int64_t heads) const { return {{dtype, {1, kTokens, heads * head_size}}, {-2, 2}}; }
  OpCase forward() const {
    return {attributes(),
            {of_heads(kHeads), of_heads(kKvHeads), of_heads(kKvHeads), token_ids(1, kTokens), i32({1, kTokens}, 0, 2)}};
  }
  OpCase backward() const {
    OpCase result = forward();
    result.attributes = ops::AttentionBackwardAttributes{attributes()};
    result.inputs.insert(result.inputs.begin() + 4, {of_heads(kHeads), f32({1, kHeads, kTokens}), of_heads(kHeads)});
    return result;
  }
  static std::size_t document(std::size_t token) { return token * 3 / extent(kTokens); }

  // Output and gradients, from numbers that differ with `change` in the document.
  std::vector<Numbers> results(std::size_t changed, double change) const {
    std::vector<Numbers> inputs = fill_inputs(backward(), 3);
    make_token_ids(inputs[3], extent(kTokens));
    for (std::size_t token = 0; token < extent(kTokens); ++token) inputs[7][token] = static_cast<double>(document(token));
    for (const std::size_t i : {0, 1, 2, 6}) add_to_document(inputs[i], changed, change);
    BoundCase forwards(ops::kAttention, forward(), {inputs[0], inputs[1], inputs[2], inputs[3], inputs[7]}, {.backend = &kCuda});
    forwards.run();
    inputs[4] = forwards.outputs()[0], inputs[5] = forwards.outputs()[1];
    BoundCase backwards(ops::kAttentionBackward, backward(), inputs, {.backend = &kCuda});
    backwards.run();
    std::vector<Numbers> all = backwards.outputs();
    all.push_back(forwards.outputs()[0]);
    return all;
  }
  static void add_to_document(Numbers& rows, std::size_t changed, double change) {
    const std::size_t width = rows.size() / extent(kTokens);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] += document(i / width) == changed ? change : 0;
  }
};

TEST(PackedRowsOnAGpu, ADocumentDoesNotChangeTheBitsOfOthers) {
  for (const PackedRows& rows : {PackedRows{8, DType::f32}, PackedRows{64, DType::bf16}, PackedRows{128, DType::f16}}) {
    const std::vector<Numbers> before = rows.results(0, 0);
    for (std::size_t changed = 0; changed < 3; ++changed) {
      const std::vector<Numbers> after = rows.results(changed, 1);
      ASSERT_EQ(before.size(), 4u);
      for (std::size_t i = 0; i < before.size(); ++i) {
        const std::size_t width = before[i].size() / extent(PackedRows::kTokens);
        std::size_t differ = 0;
        for (std::size_t at = 0; at < before[i].size(); ++at) {
          if (before[i][at] == after[i][at]) continue;
          ASSERT_EQ(PackedRows::document(at / width), changed) << rows.head_size << ", result " << i << ", element " << at;
          ++differ;
        }
        EXPECT_GT(differ, 0u);
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::test
