#include "data/window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "formats/expect_error.h"
#include "token_files.h"

namespace plimsoll {
namespace {

class WindowTest : public testing::Test {
 protected:
  TokenFile open(const std::vector<int>& tokens, std::int64_t vocab = 65536) {
    write_raw(folder / "x.bin", u16_bytes(tokens));
    return open_source({folder / "x.bin", "u16", vocab, {}, {}});
  }
  ScratchFolder folder;
};

TEST_F(WindowTest, RaggedSampleAndPartialMicroBatch) {
  const TokenFile source = open({10, 11, 12, 13, 14, 15, 16, 17, 18, 19});
  const Samples samples = make_samples(source.tokens, 4, "x");
  Window window;
  plan_window(window, {OrderKind::sequential, 1, samples.count()}, samples, 0, 3, 2);
  EXPECT_EQ(window.micro_count, 2);
  EXPECT_EQ(window.valid_units, 9);
  EXPECT_EQ(window.micro(1).size(), 1u);

  std::vector<std::byte> staging(static_cast<std::size_t>(staging_bytes(2, 4, 2)));
  EXPECT_EQ(staging.size(), 64u);
  Buffers out(2, 4);
  fill_micro_batch(source, samples, window, 0, staging, out.view());
  EXPECT_EQ(out.inputs, (std::vector<std::int32_t>{10, 11, 12, 13, 14, 15, 16, 17}));
  EXPECT_EQ(out.targets, (std::vector<std::int32_t>{11, 12, 13, 14, 15, 16, 17, 18}));
  EXPECT_EQ(out.ids, (std::vector<std::uint32_t>{0, 0, 0, 1}));
  fill_micro_batch(source, samples, window, 1, staging, out.view());
  EXPECT_EQ(out.inputs, (std::vector<std::int32_t>{18, 19, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(out.targets, (std::vector<std::int32_t>{19, -1, -1, -1, -1, -1, -1, -1}));
  EXPECT_EQ(out.ids, (std::vector<std::uint32_t>{0, 2, kAbsentSample, kAbsentSample}));
}

TEST_F(WindowTest, TextAsBytes) {
  write_raw(folder / "x.txt", "abcd\xff");
  const TokenFile source = open_source({folder / "x.txt", "bytes", 256, {}, {}});
  const Samples samples = make_samples(source.tokens, 4, "x");
  Window window;
  plan_window(window, {OrderKind::sequential, 1, samples.count()}, samples, 0, 1, 1);
  std::vector<std::byte> staging(64);
  Buffers out(1, 4);
  fill_micro_batch(source, samples, window, 0, staging, out.view());
  EXPECT_EQ(out.inputs, (std::vector<std::int32_t>{97, 98, 99, 100}));
  EXPECT_EQ(out.targets, (std::vector<std::int32_t>{98, 99, 100, 255}));
}

// The samples of an update and what is in them depend on no micro-batch size.
TEST_F(WindowTest, SameDataForEveryMicroBatch) {
  const TokenFile source = open(counting(1003));
  const Samples samples = make_samples(source.tokens, 8, "x");
  const SampleOrder order{OrderKind::shuffled, 5, samples.count()};
  std::vector<Buffers> results;
  for (const std::int64_t micro_batch : {1, 2, 3, 5, 12, 16}) {
    Window window;
    plan_window(window, order, samples, 120, 12, micro_batch);  // across the end of an epoch
    std::vector<std::byte> staging(static_cast<std::size_t>(staging_bytes(micro_batch, 8, 2)));
    Buffers all(0, 8);
    for (std::int64_t k = 0; k < window.micro_count; ++k) {
      Buffers out(static_cast<std::size_t>(micro_batch), 8);
      fill_micro_batch(source, samples, window, k, staging, out.view());
      all.inputs.insert(all.inputs.end(), out.inputs.begin(), out.inputs.end());
      all.targets.insert(all.targets.end(), out.targets.begin(), out.targets.end());
      all.ids.insert(all.ids.end(), out.ids.begin(), out.ids.end());
    }
    EXPECT_EQ(std::ranges::count_if(all.targets, [](int t) { return t >= 0; }), window.valid_units);
    all.inputs.resize(12 * 8);
    all.targets.resize(12 * 8);
    all.ids.resize(24);
    results.push_back(all);
    EXPECT_EQ(all, results.front()) << "micro-batch " << micro_batch;
  }
}

// Two and four bytes a token, behind a header or not: the same micro-batches of the same samples.
TEST_F(WindowTest, TheWidthOfTokensChangesNothing) {
  const std::vector<int> ids = counting(1003, 65536);
  const std::tuple<const char*, const char*, std::string> files[] = {{"a.bin", "u16", u16_bytes(ids)},
                                                                     {"b.bin", "u32", u32_bytes(ids)},
                                                                     {"c.bin", "llmc", llmc_bytes(ids)},
                                                                     {"d.bin", "llmc", wide_llmc_bytes(ids)}};
  std::vector<Buffers> first;
  for (const auto& [name, format, bytes] : files) {
    write_raw(folder / name, bytes);
    const TokenFile source = open_source({folder / name, format, 65536, {}, {}});
    const Samples samples = make_samples(source.tokens, 7, "x");
    Window window;
    plan_window(window, {OrderKind::shuffled, 5, samples.count()}, samples, 120, 40, 3);
    std::vector<std::byte> staging(static_cast<std::size_t>(staging_bytes(3, 7, source.bytes_per_token)));
    std::vector<Buffers> all;
    for (std::int64_t k = 0; k < window.micro_count; ++k) {
      all.emplace_back(3, 7);
      fill_micro_batch(source, samples, window, k, staging, all.back().view());
    }
    if (first.empty()) first = all;
    EXPECT_EQ(all, first) << name;
  }
}

TEST_F(WindowTest, TokensPast65535) {
  write_raw(folder / "x.bin", u32_bytes({65536, 151935, 3, 131072, -1, 151936, 7, 8}));
  const TokenFile source = open_source({folder / "x.bin", "u32", 151936, {}, {}});
  const Samples samples = make_samples(source.tokens, 3, "x");
  std::vector<std::byte> staging(64);
  Buffers out(1, 3);
  Window window;
  plan_window(window, {OrderKind::sequential, 1, samples.count()}, samples, 0, samples.count(), 1);
  fill_micro_batch(source, samples, window, 0, staging, out.view());
  EXPECT_EQ(out.inputs, (std::vector<std::int32_t>{65536, 151935, 3}));
  EXPECT_EQ(out.targets, (std::vector<std::int32_t>{151935, 3, 131072}));
  EXPECT_ERROR(fill_micro_batch(source, samples, window, 1, staging, out.view()), "E-DATA-TOKEN", "token 4 is 4294967295");
  const TokenFile smaller = open_source({folder / "x.bin", "u32", 151935, {}, {}});
  EXPECT_ERROR(fill_micro_batch(smaller, samples, window, 0, staging, out.view()), "E-DATA-TOKEN", "token 1 is 151935");
}

TEST_F(WindowTest, TokenPastTheVocabulary) {
  const TokenFile source = open({1, 2, 3, 4, 5, 6, 300, 8, 9}, 256);
  const Samples samples = make_samples(source.tokens, 4, "x");
  std::vector<std::byte> staging(64);
  Buffers out(1, 4);
  Window window;
  plan_window(window, {OrderKind::sequential, 1, 2}, samples, 0, 2, 1);
  fill_micro_batch(source, samples, window, 0, staging, out.view());
  EXPECT_ERROR(fill_micro_batch(source, samples, window, 1, staging, out.view()), "E-DATA-TOKEN", "x.bin] token 6 is 300");
  const TokenFile last = open({1, 2, 3, 4, 256}, 256);
  EXPECT_ERROR(fill_micro_batch(last, make_samples(5, 4, "x"), window, 0, staging, out.view()), "E-DATA-TOKEN", "token 4 is 256");
  const TokenFile first = open({256, 2, 3, 4, 5}, 256);
  EXPECT_ERROR(fill_micro_batch(first, make_samples(5, 4, "x"), window, 0, staging, out.view()), "E-DATA-TOKEN",
               "token 0 is 256");
}

TEST_F(WindowTest, BuffersOfAnotherShape) {
  const TokenFile source = open(counting(9));
  const Samples samples = make_samples(source.tokens, 4, "x");
  Window window;
  plan_window(window, {OrderKind::sequential, 1, 2}, samples, 0, 2, 2);
  std::vector<std::byte> staging(64);
  Buffers small(1, 4);
  EXPECT_ERROR(fill_micro_batch(source, samples, window, 0, staging, small.view()), "E-INTERNAL", "shape");
  Buffers out(2, 4);
  EXPECT_ERROR(fill_micro_batch(source, samples, window, 0, std::span(staging).first(8), out.view()), "E-INTERNAL", "staging");
}

TEST(Window, UnitsAreKnownWithoutTheWindow) {
  const Samples samples{103, 8};
  for (const OrderKind kind : {OrderKind::shuffled, OrderKind::sequential}) {
    const SampleOrder order{kind, 5, samples.count()};
    for (const std::int64_t first : {0, 3, 11, 40}) {
      Window window;
      plan_window(window, order, samples, first, 15, 4);
      const auto of_one = [&](std::int64_t sample) { return samples.valid_units(sample); };
      EXPECT_EQ(units_from(order, first, 15, of_one), window.valid_units);
    }
  }
}

}  // namespace
}  // namespace plimsoll
