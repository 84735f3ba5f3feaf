#include "data/window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <set>
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

// The consecutive micro-batches of n rows of a window.
std::vector<Buffers> micro_batches(const TokenFile& file, const SampleOrder& order, std::int64_t context, WindowRule rule,
                                   std::int64_t first, std::int64_t rows) {
  const TokenSource source(file, context);
  rule.row = context;
  Window window;
  cut_window(order, source, rule, first, window);
  WindowBatches batches(source, order, rule, rows, 0);
  batches.seek(first);
  std::vector<std::byte> staging(static_cast<std::size_t>(source.staging_bytes(rows)));
  std::vector<Buffers> all;
  for (std::int64_t k = 0; k < batches.batches_of(window); ++k) {
    all.emplace_back(static_cast<std::size_t>(rows), static_cast<std::size_t>(context));
    const auto samples = batches.next();
    source.read(samples, staging);
    source.fill(samples, staging, all.back().fields());
  }
  return all;
}

SampleOrder in_order(const TokenFile& file, std::int64_t context) {
  return {OrderKind::sequential, 1, make_samples(file.tokens, context, "x").count()};
}

TEST_F(WindowTest, RaggedSampleAndPartialMicroBatch) {
  const TokenFile file = open({10, 11, 12, 13, 14, 15, 16, 17, 18, 19});
  const SampleOrder order = in_order(file, 4);
  Window window;
  cut_window(order, TokenSource(file, 4), {.samples = 3, .row = 4}, 0, window);
  EXPECT_EQ(window.rows, 3);
  EXPECT_EQ(window.units, 9);
  EXPECT_EQ(window.positions, 9);

  const std::vector<Buffers> all = micro_batches(file, order, 4, {.samples = 3}, 0, 2);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].inputs, (std::vector<std::int32_t>{10, 11, 12, 13, 14, 15, 16, 17}));
  EXPECT_EQ(all[0].targets, (std::vector<std::int32_t>{11, 12, 13, 14, 15, 16, 17, 18}));
  EXPECT_EQ(all[0].ids, (std::vector<std::uint32_t>{0, 0, 0, 1}));
  EXPECT_EQ(all[1].inputs, (std::vector<std::int32_t>{18, 19, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(all[1].targets, (std::vector<std::int32_t>{19, -1, -1, -1, -1, -1, -1, -1}));
  EXPECT_EQ(all[1].ids, (std::vector<std::uint32_t>{0, 2, kAbsentSample, kAbsentSample}));
}

TEST_F(WindowTest, TextAsBytes) {
  write_raw(folder / "x.txt", "abcd\xff");
  const TokenFile file = open_source({folder / "x.txt", "bytes", 256, {}, {}});
  const std::vector<Buffers> all = micro_batches(file, in_order(file, 4), 4, {.samples = 1}, 0, 1);
  EXPECT_EQ(all[0].inputs, (std::vector<std::int32_t>{97, 98, 99, 100}));
  EXPECT_EQ(all[0].targets, (std::vector<std::int32_t>{98, 99, 100, 255}));
}

// The samples of an update and their content do not depend on the micro-batch size.
TEST_F(WindowTest, SameDataForEveryMicroBatch) {
  const TokenFile file = open(counting(1003));
  const SampleOrder order{OrderKind::shuffled, 5, make_samples(1003, 8, "x").count()};
  std::vector<Buffers> results;
  for (const std::int64_t micro_batch : {1, 2, 3, 5, 12, 16}) {
    Buffers all(0, 8);  // across the end of an epoch
    for (const Buffers& out : micro_batches(file, order, 8, {.samples = 12}, 120, micro_batch)) {
      all.inputs.insert(all.inputs.end(), out.inputs.begin(), out.inputs.end());
      all.targets.insert(all.targets.end(), out.targets.begin(), out.targets.end());
      all.ids.insert(all.ids.end(), out.ids.begin(), out.ids.end());
    }
    Window window;
    cut_window(order, TokenSource(file, 8), {.samples = 12, .row = 8}, 120, window);
    EXPECT_EQ(std::ranges::count_if(all.targets, [](int t) { return t >= 0; }), window.units);
    all.inputs.resize(12 * 8);
    all.targets.resize(12 * 8);
    all.ids.resize(24);
    results.push_back(all);
    EXPECT_EQ(all, results.front()) << "micro-batch " << micro_batch;
  }
}

// Two and four bytes a token, with and without a header: the same micro-batches of the same samples.
TEST_F(WindowTest, TheWidthOfTokensChangesNothing) {
  const std::vector<int> ids = counting(1003, 65536);
  const std::tuple<const char*, const char*, std::string> files[] = {{"a.bin", "u16", u16_bytes(ids)},
                                                                     {"b.bin", "u32", u32_bytes(ids)},
                                                                     {"c.bin", "llmc", llmc_bytes(ids)},
                                                                     {"d.bin", "llmc", wide_llmc_bytes(ids)}};
  std::vector<Buffers> first;
  for (const auto& [name, format, bytes] : files) {
    write_raw(folder / name, bytes);
    const TokenFile file = open_source({folder / name, format, 65536, {}, {}});
    const SampleOrder order{OrderKind::shuffled, 5, make_samples(file.tokens, 7, "x").count()};
    const std::vector<Buffers> all = micro_batches(file, order, 7, {.samples = 40}, 120, 3);
    if (first.empty()) first = all;
    EXPECT_EQ(all, first) << name;
  }
}

TEST_F(WindowTest, TokensPast65535) {
  write_raw(folder / "x.bin", u32_bytes({65536, 151935, 3, 131072, -1, 151936, 7, 8}));
  const TokenFile file = open_source({folder / "x.bin", "u32", 151936, {}, {}});
  const std::vector<Buffers> all = micro_batches(file, in_order(file, 3), 3, {.samples = 1}, 0, 1);
  EXPECT_EQ(all[0].inputs, (std::vector<std::int32_t>{65536, 151935, 3}));
  EXPECT_EQ(all[0].targets, (std::vector<std::int32_t>{151935, 3, 131072}));
  EXPECT_ERROR(micro_batches(file, in_order(file, 3), 3, {.samples = 1}, 1, 1), "E-DATA-TOKEN", "token 4 is 4294967295");
  const TokenFile smaller = open_source({folder / "x.bin", "u32", 151935, {}, {}});
  EXPECT_ERROR(micro_batches(smaller, in_order(smaller, 3), 3, {.samples = 1}, 0, 1), "E-DATA-TOKEN", "token 1 is 151935");
}

TEST_F(WindowTest, TokenPastTheVocabulary) {
  const auto fill = [&](const std::vector<int>& tokens, std::int64_t first) {
    const TokenFile file = open(tokens, 256);
    micro_batches(file, in_order(file, 4), 4, {.samples = 1}, first, 1);
  };
  fill({1, 2, 3, 4, 5, 6, 300, 8, 9}, 0);
  EXPECT_ERROR(fill({1, 2, 3, 4, 5, 6, 300, 8, 9}, 1), "E-DATA-TOKEN", "x.bin] token 6 is 300");
  EXPECT_ERROR(fill({1, 2, 3, 4, 256}, 0), "E-DATA-TOKEN", "token 4 is 256");
  EXPECT_ERROR(fill({256, 2, 3, 4, 5}, 0), "E-DATA-TOKEN", "token 0 is 256");
}

// A source of samples with given sizes.
class Sized final : public SampleSource {
 public:
  explicit Sized(std::vector<std::int64_t> sizes) : sizes_(std::move(sizes)) {}
  std::int64_t count() const override { return std::ssize(sizes_); }
  SampleSize size(std::int64_t sample) const override {
    const std::int64_t positions = sizes_[static_cast<std::size_t>(sample)];
    return {positions, (positions + 1) / 2};
  }
  std::int64_t staging_bytes(std::int64_t) const override { return 64; }
  void read(std::span<const PlacedSample>, std::span<std::byte>) const override {}
  void drop(std::span<const PlacedSample>) const override {}
  void fill(std::span<const PlacedSample>, std::span<const std::byte>, std::span<const FieldBuffer>) const override {}

 private:
  std::vector<std::int64_t> sizes_;
};

std::vector<std::int64_t> random_sizes(std::uint32_t seed, std::size_t count, std::int64_t most) {
  std::mt19937 random(seed);
  std::vector<std::int64_t> sizes(count);
  for (std::int64_t& size : sizes) size = 1 + static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(most));
  return sizes;
}

// First-fit by the textbook: asks each row in turn.
std::int64_t rows_of_first_fit_decreasing(std::vector<std::int64_t> sizes, std::int64_t row) {
  std::ranges::sort(sizes, std::greater<>());
  std::vector<std::int64_t> rooms;
  for (const std::int64_t size : sizes) {
    const auto fits = std::ranges::find_if(rooms, [&](std::int64_t room) { return room >= size; });
    if (fits == rooms.end()) {
      rooms.push_back(row - size);
    } else {
      *fits -= size;
    }
  }
  return std::ssize(rooms);
}

TEST(Packing, EachSampleOnceWithoutOverlapInAsManyRowsAsFirstFitDecreasing) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    const std::int64_t row = 20 + seed % 50;
    const Sized source(random_sizes(seed, 1 + seed % 97, row));
    const SampleOrder order{OrderKind::shuffled, seed, source.count()};
    Window window;
    cut_window(order, source, {.samples = source.count(), .row = row, .packs = true}, 0, window);
    std::vector<std::int64_t> sizes;
    std::set<std::uint32_t> seen;
    std::int64_t end = 0, last_row = -1, units = 0;
    for (const PlacedSample& each : window.placed) {
      if (each.row != last_row) end = 0;
      ASSERT_GE(each.row, last_row);
      last_row = each.row;
      EXPECT_EQ(each.begin, end) << "samples of a row stand one behind the other";
      sizes.push_back(source.size(each.ref.sample).positions);
      units += source.size(each.ref.sample).units;
      end = each.begin + sizes.back();
      EXPECT_LE(end, row);
      EXPECT_TRUE(seen.insert(each.ref.sample).second);
    }
    EXPECT_EQ(std::ssize(window.placed), source.count());
    EXPECT_EQ(window.units, units);
    EXPECT_EQ(window.rows, rows_of_first_fit_decreasing(sizes, row)) << "seed " << seed;
  }
}

// Windows of a number of positions hold as many samples as fit, at least one, and follow each other without a gap.
TEST(Windows, OfPositions) {
  const Sized source(random_sizes(7, 300, 64));
  const SampleOrder order{OrderKind::shuffled, 9, source.count()};
  for (const bool packs : {false, true}) {
    Window window;
    std::int64_t position = 0;
    while (position < 900) {
      cut_window(order, source, {.positions = 100, .row = 64, .packs = packs}, position, window);
      ASSERT_EQ(window.first, position);
      ASSERT_GE(window.samples, 1);
      const std::int64_t next = source.size(order.at(window.end()).sample).positions;
      EXPECT_GT(window.positions + next, 100);
      EXPECT_LE(window.positions, window.samples == 1 ? 64 : 100);
      position = window.end();
    }
  }
}

// The last window of a training has the remaining samples. The next one begins after it.
TEST(Windows, EndAtASpan) {
  const Sized source(std::vector<std::int64_t>(10, 3));
  const SampleOrder order{OrderKind::sequential, 1, source.count()};
  Window window;
  std::vector<std::int64_t> samples;
  for (std::int64_t position = 0; position < 40; position = window.end()) {
    cut_window(order, source, {.samples = 8, .span = 20, .row = 4}, position, window);
    samples.push_back(window.samples);
  }
  EXPECT_EQ(samples, (std::vector<std::int64_t>{8, 8, 4, 8, 8, 4}));
}

// The samples of the next window from its micro-batches of `rows` rows, with rows that count from the begin of the window.
std::vector<PlacedSample> joined(WindowBatches& batches, const Window& window, std::int64_t rows) {
  std::vector<PlacedSample> all;
  for (std::int64_t batch = 0; batch < batches.batches_of(window); ++batch) {
    for (PlacedSample sample : batches.next()) {
      EXPECT_LT(sample.row, rows);
      sample.row += static_cast<std::int32_t>(batch * rows);
      all.push_back(sample);
    }
  }
  return all;
}

void expect_batches_hold_all_windows(std::int64_t rows, std::int64_t fixed) {
  SCOPED_TRACE(testing::Message() << rows << " rows, " << fixed << " micro-batches of a window");
  constexpr std::int64_t kBegin = 21;
  constexpr int kWindows = 10;
  const Sized source(random_sizes(3, 50, 16));
  const SampleOrder order{OrderKind::shuffled, 2, source.count()};
  const WindowRule rule{.samples = 7, .row = 16, .packs = true};
  WindowBatches batches(source, order, rule, rows, fixed);
  batches.seek(kBegin);
  Window window;
  std::int64_t position = kBegin;
  for (int each = 0; each < kWindows; ++each) {
    cut_window(order, source, rule, position, window);
    ASSERT_GE(batches.batches_of(window) * rows, window.rows);
    EXPECT_EQ(joined(batches, window, rows), window.placed);
    position = window.end();
  }
}

// Micro-batches of every size hold the samples of all windows in the same order; with a fixed number the last ones are empty.
TEST(Windows, MicroBatches) {
  constexpr std::int64_t kAsRowsTake = 0, kMoreThanRowsTake = 9;
  for (const std::int64_t rows : {1, 2, 3, 8}) {
    expect_batches_hold_all_windows(rows, kAsRowsTake);
    expect_batches_hold_all_windows(rows, kMoreThanRowsTake);
  }
}

}  // namespace
}  // namespace plimsoll
