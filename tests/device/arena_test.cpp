#include "device/arena.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <vector>

#include "device/cpu/parallel.h"
#include "device/process_memory.h"

namespace plimsoll {
namespace {

constexpr Bytes kHuge{2 << 20};

// The physical frames of the memory's pages; empty if the kernel hides them from this user.
std::vector<std::uint64_t> frames_of(std::span<const std::byte> memory) {
  const int file = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  std::vector<std::uint64_t> frames(memory.size() / static_cast<std::size_t>(kPage.n));
  const auto first = static_cast<off_t>(reinterpret_cast<std::uintptr_t>(memory.data()) / static_cast<std::uintptr_t>(kPage.n));
  const auto bytes = static_cast<ssize_t>(frames.size() * sizeof(frames[0]));
  const bool told = ::pread(file, frames.data(), frames.size() * sizeof(frames[0]), first * 8) == bytes;
  ::close(file);
  for (std::uint64_t& frame : frames) frame &= (std::uint64_t{1} << 55) - 1;
  if (!told || std::count(frames.begin(), frames.end(), 0) > 0) return {};
  return frames;
}

bool side_by_side(const std::vector<std::uint64_t>& frames) {
  return std::adjacent_find(frames.begin(), frames.end(), [](auto a, auto b) { return b != a + 1; }) == frames.end();
}

bool can_be_read(const std::byte* address) {
  int ends[2];
  if (::pipe(ends) != 0) return false;
  const bool read = ::write(ends[1], address, 1) == 1;
  ::close(ends[0]);
  ::close(ends[1]);
  return read;
}

constexpr Bytes kSizes[]{kPage, kHuge - kPage, kHuge, kHuge + kPage, kHuge * 3 + kPage * 300};

TEST(Arena, TakesWhatItWasAskedForAndNoMore) {
  cpu::set_thread_count(2);
  counted_resident();
  { const Arena starts_the_team(kHuge * 2 + kPage); }
  for (const Bytes size : kSizes) {
    const Bytes before = counted_resident();
    const Arena arena(size);
    const Bytes taken = counted_resident() - before;
    EXPECT_EQ(arena.resident(), size);
    EXPECT_GE(taken, size);
    EXPECT_LE(taken, size + kPage * 16) << "of the heap";
    EXPECT_TRUE(std::all_of(arena.all().begin(), arena.all().end(), [](std::byte each) { return each == std::byte{0}; }));
  }
}

TEST(Arena, LiesBetweenGuards) {
  for (const Bytes size : kSizes) {
    const Arena arena(size);
    EXPECT_TRUE(can_be_read(arena.base()));
    EXPECT_TRUE(can_be_read(arena.base() + size.n - 1));
    EXPECT_FALSE(can_be_read(arena.base() - 1));
    EXPECT_FALSE(can_be_read(arena.base() + size.n));
    const Bytes whole = align_up(size, kHuge);
    if (whole > size) EXPECT_FALSE(can_be_read(arena.base() + whole.n - 1)) << "what was cut off";
  }
}

// This also holds while the arena is created.
TEST(Arena, HasAtNoTimeMoreThanInTheEnd) {
  cpu::set_thread_count(2);
  { const Arena starts_the_team(kHuge * 2 + kPage); }
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak begins here
  const Bytes before = peak_resident();
  const Arena arena(kHuge + kPage);
  const Bytes most = peak_resident() - before;
  if (before > counted_resident()) GTEST_SKIP() << "the kernel keeps the peak that was";
  EXPECT_LE(most, arena.mapped() + kMiB) << "the counters lag";
}

TEST(Arena, LiesSideBySideToItsEndWhereThereAreHugePages) {
  constexpr int kTries = 8;  // the kernel need not find one each time
  const Bytes tail = kPage * 300;
  int huge = 0, whole = 0;
  for (int i = 0; i < kTries; ++i) {
    const Arena arena(kHuge + tail);
    const std::vector<std::uint64_t> frames = frames_of(arena.all());
    if (frames.empty()) GTEST_SKIP() << "the kernel does not tell this user where memory lies";
    const auto end = frames.begin() + kHuge.n / kPage.n;
    if (!side_by_side({frames.begin(), end})) continue;
    ++huge;
    whole += side_by_side({end, frames.end()}) ? 1 : 0;
  }
  if (huge == 0) GTEST_SKIP() << "no huge pages here";
  EXPECT_GT(2 * whole, huge) << whole << " of " << huge;
}

}  // namespace
}  // namespace plimsoll
