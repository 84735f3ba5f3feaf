#include "data/prefetch.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <iterator>
#include <optional>
#include <thread>

#include "formats/expect_error.h"
#include "token_files.h"

namespace plimsoll {
namespace {

class PrefetchTest : public testing::Test {
 protected:
  static constexpr std::int64_t kContext = 16;
  static constexpr std::int64_t kMicro = 3;

  PrefetchTest() {
    write_raw(folder / "x.bin", u16_bytes(counting(40'000)));
    source = open_source({folder / "x.bin", "u16", 65536, {}, {}});
    samples = make_samples(source.tokens, kContext, "x");
    tokens.emplace(source, kContext);
    for (auto& buffer : buffers) buffer.resize(static_cast<std::size_t>(staging_bytes(kMicro, kContext, 2)));
  }
  std::array<std::span<std::byte>, 2> staging() { return {buffers[0], buffers[1]}; }

  ScratchFolder folder;
  TokenFile source;
  Samples samples;
  std::optional<TokenSource> tokens;
  std::array<std::vector<std::byte>, 2> buffers;
};

// Runs windows of 10 samples through the prefetcher and compares each micro-batch with the one that is read directly.
TEST_F(PrefetchTest, DeliversWhatADirectReadDelivers) {
  for (const OrderKind kind : {OrderKind::shuffled, OrderKind::sequential}) {
    const SampleOrder order{kind, 3, samples.count()};
    std::vector<std::byte> direct_staging(buffers[0].size());
    Prefetcher prefetcher(*tokens, "x.bin", kMicro, staging());
    const WindowRule rule{.samples = 10, .row = kContext};
    WindowBatches ahead(*tokens, order, rule, kMicro, 0), now(*tokens, order, rule, kMicro, 0);
    ahead.seek(0);
    now.seek(0);
    prefetcher.submit(ahead.next());
    Buffers out(kMicro, kContext), direct(kMicro, kContext);
    for (std::int64_t batch = 0; batch < 1200; ++batch) {
      prefetcher.submit(ahead.next());
      prefetcher.take(out.fields());
      const auto placed = now.next();
      tokens->read(placed, direct_staging);
      tokens->fill(placed, direct_staging, direct.fields());
      ASSERT_EQ(out, direct) << "micro-batch " << batch;
    }
  }
}

// Staging for the wider of two files serves both.
TEST_F(PrefetchTest, TokensOfFourBytes) {
  write_raw(folder / "a.bin", wide_llmc_bytes(counting(7)));
  std::vector<int> rest = counting(40'000);
  rest.erase(rest.begin(), rest.begin() + 7);
  write_raw(folder / "b.bin", wide_llmc_bytes(rest));
  const TokenFile wide = open_source({std::vector{folder / "a.bin", folder / "b.bin"}, "llmc", 65536, {}, {}});
  for (auto& buffer : buffers) buffer.resize(static_cast<std::size_t>(staging_bytes(kMicro, kContext, 4)));
  Prefetcher narrow_reader(*tokens, "x.bin", kMicro, staging());
  std::array<std::vector<std::byte>, 2> others = buffers;
  const TokenSource wide_tokens(wide, kContext);
  Prefetcher reader(wide_tokens, "a.bin", kMicro, {others[0], others[1]});
  Buffers expected(kMicro, kContext), out(kMicro, kContext);
  for (std::uint32_t sample = 0; sample < 2400; sample += 37) {
    const std::vector<PlacedSample> refs = in_rows({{0, sample}, {0, sample + 1}, {1, 2499 - sample}});
    narrow_reader.submit(refs);
    reader.submit(refs);
    narrow_reader.take(expected.fields());
    reader.take(out.fields());
    ASSERT_EQ(out, expected) << "sample " << sample;
  }
}

// The threads of this process. A thread that has been joined leaves the list a moment later.
std::ptrdiff_t threads() { return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}); }
bool ends_with(std::ptrdiff_t count) {
  const auto latest = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (threads() != count && std::chrono::steady_clock::now() < latest)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return threads() == count;
}

TEST_F(PrefetchTest, StopsAtAnyTime) {
  const std::vector<PlacedSample> refs = in_rows({{0, 0}, {0, 7}});
  const std::ptrdiff_t before = threads();
  for (int round = 0; round < 200; ++round) {
    Prefetcher prefetcher(*tokens, "x.bin", kMicro, staging());
    EXPECT_TRUE(ends_with(before + 1)) << "round " << round;
    const int submitted = round % (Prefetcher::kDepth + 1);
    for (int i = 0; i < submitted; ++i) prefetcher.submit(refs);
    EXPECT_EQ(prefetcher.pending(), submitted);
    if (round % 5 != 0) continue;
    prefetcher.discard();
    EXPECT_EQ(prefetcher.pending(), 0);
  }
  EXPECT_TRUE(ends_with(before)) << threads() << " threads instead of " << before;
}

TEST_F(PrefetchTest, DiscardMovesOn) {
  Prefetcher prefetcher(*tokens, "x.bin", kMicro, staging());
  prefetcher.submit(in_rows({{0, 1}}));
  prefetcher.submit(in_rows({{0, 2}}));
  prefetcher.discard();
  EXPECT_EQ(prefetcher.pending(), 0);
  prefetcher.submit(in_rows({{0, 9}}));
  Buffers out(kMicro, kContext);
  prefetcher.take(out.fields());
  EXPECT_EQ(out.inputs[0], 9 * kContext);
  EXPECT_EQ(out.ids[1], 9u);
}

TEST_F(PrefetchTest, ErrorsReachTheConsumer) {
  Prefetcher prefetcher(*tokens, "x.bin", kMicro, staging());
  std::filesystem::resize_file(folder / "x.bin", 1000);
  const std::vector<PlacedSample> lost = in_rows({{0, 2000}}), kept = in_rows({{0, 1}});
  Buffers out(kMicro, kContext);
  prefetcher.submit(lost);
  prefetcher.submit(kept);
  EXPECT_ERROR(prefetcher.take(out.fields()), "E-IO-READ", "x.bin] it ends at byte");
  EXPECT_ERROR(prefetcher.take(out.fields()), "E-DATA-CHANGED", "it had 80000 bytes and has 1000 now");
  EXPECT_ERROR(prefetcher.take(out.fields()), "E-INTERNAL", "nothing was submitted");
}

TEST_F(PrefetchTest, RefusesMisuse) {
  auto small = staging();
  small[1] = small[1].first(10);
  EXPECT_ERROR(Prefetcher(*tokens, "x.bin", kMicro, small), "E-INTERNAL", "too small");
  Prefetcher prefetcher(*tokens, "x.bin", kMicro, staging());
  prefetcher.submit(in_rows({{0, 1}}));
  prefetcher.submit(in_rows({{0, 1}}));
  EXPECT_ERROR(prefetcher.submit(in_rows({{0, 1}})), "E-INTERNAL", "in use");
}

int lowest_priority_of_threads() {
  int nice = -20;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    nice = std::max(nice, getpriority(PRIO_PROCESS, static_cast<id_t>(std::stol(task.path().filename()))));
  }
  return nice;
}

// The training waits for the thread. With a lower priority, other programs could keep it from its processor.
TEST_F(PrefetchTest, TheThreadHasThePriorityOfTheProcess) {
  const int before = getpriority(PRIO_PROCESS, 0);
  Prefetcher prefetcher(*tokens, "x.bin", kMicro, staging());
  prefetcher.submit(in_rows({{0, 1}}));
  prefetcher.discard();
  EXPECT_EQ(lowest_priority_of_threads(), before);
}

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
TEST_F(PrefetchTest, AllocatesNothingAfterTheStart) {
  const SampleOrder order{OrderKind::shuffled, 3, samples.count()};
  Prefetcher prefetcher(*tokens, "x.bin", kMicro, staging());
  WindowBatches batches(*tokens, order, {.samples = 9, .row = kContext}, kMicro, 0);
  batches.seek(0);
  Buffers out(kMicro, kContext);
  const std::vector<FieldBuffer> fields = out.fields();
  const auto heap = [] { return mallinfo2().uordblks; };
  const auto before = heap();
  for (std::int64_t batch = 0; batch < 300; ++batch) {
    prefetcher.submit(batches.next());
    prefetcher.take(fields);
  }
  EXPECT_EQ(heap(), before);
}
#endif

}  // namespace
}  // namespace plimsoll
