#include "ops/embedding/kernels.h"

#include "ops/kernel_buffers.h"

namespace plimsoll::cpu {
namespace {

constexpr std::int64_t kVocabulary = 50;
const std::vector<EmbeddingShape> kShapes{{1, 1, 1}, {2, 3, 5}, {3, 17, 64}, {2, 40, 769}, {4, 100, 80}};

// Few distinct tokens, so that most of them recur.
std::vector<std::int32_t> some_tokens(const EmbeddingShape& s) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < s.batch * s.tokens; ++i)
    tokens.push_back(static_cast<std::int32_t>(random_word(9, i) % kVocabulary));
  return tokens;
}

TEST(EmbeddingKernels, ForwardAddsPositions) {
  on_every_target([] {
    for (const EmbeddingShape& s : kShapes) {
      const auto tokens = some_tokens(s);
      const std::int64_t n = s.batch * s.tokens * s.width;
      const Floats table = random_floats(kVocabulary * s.width, 1), positions = random_floats(s.tokens * s.width, 2);
      Floats out(n);
      embedding_forward(s, {0, kVocabulary}, tokens.data(), table.data(), {positions.data()}, out.data());
      bool same = true;
      for (std::int64_t i = 0; i < n; ++i) {
        const float entry = table[tokens[static_cast<std::size_t>(i / s.width)] * s.width + i % s.width];
        same &= out[i] == entry + positions[i % (s.tokens * s.width)];
      }
      EXPECT_TRUE(same);
    }
  });
}

TEST(EmbeddingKernels, TokenGradientAddsInAscendingOrder) {
  on_every_target([] {
    for (const EmbeddingShape& s : kShapes) {
      const auto tokens = some_tokens(s);
      const Floats d_out = random_floats(s.batch * s.tokens * s.width, 1), before = random_floats(kVocabulary * s.width, 2);
      for (const bool accumulate : {false, true}) {
        Floats d_table = before.clone();
        embedding_token_gradient(s, {0, kVocabulary}, tokens.data(), d_out.data(), accumulate, d_table.data());
        std::vector<float> expected = before.values();
        if (!accumulate) expected.assign(expected.size(), 0);
        for (std::int64_t i = 0; i < d_out.size(); ++i) {
          expected[static_cast<std::size_t>(tokens[static_cast<std::size_t>(i / s.width)] * s.width + i % s.width)] += d_out[i];
        }
        EXPECT_EQ(d_table.values(), expected);
      }
    }
  });
}

// Neither the token of the padding nor one below zero adds anything.
TEST(EmbeddingKernels, PaddingGetsNoGradient) {
  on_every_target([] {
    for (const EmbeddingShape& s : kShapes) {
      auto tokens = some_tokens(s);
      const std::int32_t padding = tokens.front();
      const Floats d_out = random_floats(s.batch * s.tokens * s.width, 1);
      Floats d_table(kVocabulary * s.width), expected(kVocabulary * s.width);
      embedding_token_gradient(s, {0, kVocabulary}, tokens.data(), d_out.data(), false, d_table.data(), padding);
      for (std::int64_t i = 0; i < s.width; ++i) EXPECT_EQ(d_table[padding * s.width + i], 0);
      for (std::int32_t& token : tokens) token = token == padding ? -1 : token;
      embedding_token_gradient(s, {0, kVocabulary}, tokens.data(), d_out.data(), false, expected.data());
      EXPECT_TRUE(d_table == expected);
    }
  });
}

TEST(EmbeddingKernels, PaddingGetsNoSlot) {
  const std::vector<std::int32_t> tokens{4, 2, 4, 0, 2};
  std::vector<std::int32_t> map(6), slots(5);
  EXPECT_EQ(give_slots(5, 5, 2, tokens.data(), map.data(), slots.data(), 4), 2);
  EXPECT_EQ(slots, (std::vector<std::int32_t>{-1, 0, -1, 1, 0}));
  EXPECT_EQ(map, (std::vector<std::int32_t>{2, 0, 1, 0, 0, 2}));
}

// Each range comes from a table that contains nothing else.
TEST(EmbeddingKernels, RangesOfTheTableChangeNoBit) {
  on_every_target([] {
    for (const EmbeddingShape& s : kShapes) {
      const auto tokens = some_tokens(s);
      const std::int64_t n = s.batch * s.tokens * s.width;
      const Floats table = random_floats(kVocabulary * s.width, 1), positions = random_floats(s.tokens * s.width, 2);
      const Floats d_out = random_floats(n, 3);
      Floats whole(n), out(n), d_whole = table.clone();
      embedding_forward(s, {0, kVocabulary}, tokens.data(), table.data(), {positions.data()}, whole.data());
      embedding_token_gradient(s, {0, kVocabulary}, tokens.data(), d_out.data(), true, d_whole.data());
      std::vector<float> d_table;
      for (std::int64_t begin = 0; begin < kVocabulary; begin += 3) {
        const std::int64_t count = std::min<std::int64_t>(3, kVocabulary - begin);
        Floats rows(count * s.width);
        std::copy_n(table.data() + begin * s.width, count * s.width, rows.data());
        embedding_forward(s, {begin, count}, tokens.data(), rows.data(), {positions.data()}, out.data());
        embedding_token_gradient(s, {begin, count}, tokens.data(), d_out.data(), true, rows.data());
        d_table.insert(d_table.end(), rows.data(), rows.data() + count * s.width);
      }
      EXPECT_EQ(out.values(), whole.values());
      EXPECT_EQ(d_table, d_whole.values());
    }
  });
}

TEST(EmbeddingKernels, PositionGradientSumsTheBatch) {
  on_every_target([] {
    for (const EmbeddingShape& s : kShapes) {
      const std::int64_t n = s.tokens * s.width, rows = s.tokens + 2;
      const Floats d_out = random_floats(s.batch * n, 1), before = random_floats(rows * s.width, 2);
      for (const bool accumulate : {false, true}) {
        Floats d_positions = before.clone();
        embedding_position_gradient(s, rows, d_out.data(), accumulate, d_positions.data());
        bool same = true;
        for (std::int64_t i = 0; i < rows * s.width; ++i) {
          float sum = i < n ? d_out[i] : 0;
          for (std::int64_t b = 1; b < s.batch && i < n; ++b) sum += d_out[b * n + i];
          same &= d_positions[i] == (accumulate ? before[i] + sum : sum);
        }
        EXPECT_TRUE(same);
      }
    }
  });
}

TEST(EmbeddingKernels, ThreadsChangeNoBit) {
  const EmbeddingShape s{4, 200, 300};
  const auto tokens = some_tokens(s);
  const Floats d_out = random_floats(s.batch * s.tokens * s.width, 1);
  expect_same_on_threads([&] {
    Floats d_table(kVocabulary * s.width);
    embedding_token_gradient(s, {0, kVocabulary}, tokens.data(), d_out.data(), false, d_table.data());
    return d_table;
  });
  expect_same_on_threads([&] {
    Floats d_positions(s.tokens * s.width);
    embedding_position_gradient(s, s.tokens, d_out.data(), false, d_positions.data());
    return d_positions;
  });
}

}  // namespace
}  // namespace plimsoll::cpu
