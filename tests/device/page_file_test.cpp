#include "device/disk/page_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "device/arena.h"
#include "device/refuse_io_uring.h"

namespace plimsoll {

void PrintTo(TransferEngine engine, std::ostream* out) { *out << name(engine); }

namespace {

constexpr Bytes kStaging{64 << 10};

PageFile::Sizes sizes_of(Bytes file, std::size_t events, TransferEngine engine, int transfers = 1) {
  return {file, transfers, kStaging, events, engine};
}

// The contract of both engines. If the kernel refuses io_uring, its cases are skipped.
class PageFileOf : public testing::TestWithParam<TransferEngine> {
 protected:
  void SetUp() override {
    const std::string refusal = GetParam() == TransferEngine::io_uring ? io_uring_refusal() : "";
    if (!refusal.empty()) GTEST_SKIP() << "no io_uring here: " << refusal;
  }
};
INSTANTIATE_TEST_SUITE_P(Engine, PageFileOf, testing::Values(TransferEngine::threads, TransferEngine::io_uring),
                         [](const auto& info) { return std::string(name(info.param)); });

std::vector<std::byte> noise(std::size_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> result(bytes);
  for (std::byte& byte : result) byte = static_cast<std::byte>(random());
  return result;
}

TEST_P(PageFileOf, GivesBackWhatWasWrittenInAnyOrder) {
  // Sizes below, at and above a staging buffer, with and without a whole number of blocks.
  const std::vector<std::int64_t> sizes{4, 4096, 4100, kStaging.n, kStaging.n + 4, 3 * kStaging.n + 12};
  std::vector<PageFile::Piece> pieces;
  Bytes end;
  for (const std::int64_t size : sizes) {
    pieces.push_back({end, Bytes{size}});
    end += align_up(Bytes{size}, PageFile::kPieceAlignment);
  }
  PageFile file(std::filesystem::temp_directory_path(), sizes_of(end, 2 * sizes.size(), GetParam(), 3), pieces);
  std::vector<std::vector<std::byte>> data, back;
  for (unsigned round = 0; round < 3; ++round) {
    data.clear(), back.clear();
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      data.push_back(noise(static_cast<std::size_t>(sizes[i]), 10 * round + static_cast<unsigned>(i)));
      back.emplace_back(data[i].size());
    }
    for (std::size_t i = sizes.size(); i-- > 0;) file.start_write(static_cast<std::uint32_t>(i), pieces[i].offset, data[i]);
    for (std::uint32_t i = 0; i < sizes.size(); ++i) file.wait(i);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      file.start_read(static_cast<std::uint32_t>(i + sizes.size()), pieces[i].offset, back[i]);
    }
    for (std::uint32_t i = 0; i < sizes.size(); ++i) file.wait(i + static_cast<std::uint32_t>(sizes.size()));
    EXPECT_EQ(back, data);
  }
  EXPECT_EQ(file.height(), end);
  EXPECT_EQ(file.written(), end);
  EXPECT_EQ(file.wear(), end * 3) << "each round wrote whole blocks";
  std::vector<std::byte> all;
  file.read(pieces[2].offset, pieces[2].bytes,
            [&](std::span<const std::byte> part) { all.insert(all.end(), part.begin(), part.end()); });
  EXPECT_EQ(all, data[2]);
}

// Direct parts and staged parts reach the same file.
TEST_P(PageFileOf, MovesToAndFromAnyAddress) {
  const std::vector<std::int64_t> sizes{4, 4096, kMiB.n, 2 * kMiB.n + 4096, 2 * kMiB.n + 12};
  const std::vector<std::size_t> shifts{0, 4096, 512, 64, 4};
  constexpr std::size_t kMost = 3 << 20, kBefore = 8192;
  Arena arena(Bytes{2 * kMost});
  const std::span<std::byte> from = arena.all().first(kMost), to = arena.all().last(kMost);
  for (const std::int64_t size : sizes) {
    const auto bytes = static_cast<std::size_t>(size);
    PageFile file(std::filesystem::temp_directory_path(), sizes_of(Bytes{kMost}, 1, GetParam()), {{Bytes{0}, Bytes{size}}});
    for (std::size_t i = 0; i < shifts.size(); ++i) {
      for (const std::size_t shift : shifts) {
        const std::vector<std::byte> data = noise(bytes, static_cast<unsigned>(i));
        std::ranges::copy(data, from.begin() + static_cast<std::ptrdiff_t>(kBefore + shifts[i]));
        file.start_write(0, Bytes{0}, from.subspan(kBefore + shifts[i], bytes));
        file.wait(0);
        std::ranges::fill(to, std::byte{165});
        file.start_read(0, Bytes{0}, to.subspan(kBefore + shift, bytes));
        file.wait(0);
        EXPECT_TRUE(std::ranges::equal(to.subspan(kBefore + shift, bytes), data))
            << size << " from " << shifts[i] << " to " << shift;
        const auto touched = [](std::byte byte) { return byte != std::byte{165}; };
        EXPECT_FALSE(std::ranges::any_of(to.first(kBefore + shift), touched)) << size << " to " << shift;
        EXPECT_FALSE(std::ranges::any_of(to.subspan(kBefore + shift + bytes), touched)) << size << " to " << shift;
      }
    }
  }
}

TEST_P(PageFileOf, NoticesWhatChangedOnTheDiskWhereNothingIsCopied) {
  Arena arena(kMiB * 2);
  PageFile file(std::filesystem::temp_directory_path(), sizes_of(kMiB * 2, 1, GetParam()), {{Bytes{0}, kMiB * 2}});
  file.start_write(0, Bytes{0}, arena.all());
  file.wait(0);
  std::ranges::fill(arena.all().first(4096), std::byte{1});
  ASSERT_EQ(::pwrite(file.fd(), arena.base(), 4096, kMiB.n + 8192), 4096);
  file.start_read(0, Bytes{0}, arena.all());
  try {
    file.wait(0);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code, "E-DISK-CORRUPT");
  }
}

TEST_P(PageFileOf, BeginsAsZerosWithoutTouchingTheDisk) {
  PageFile file(std::filesystem::temp_directory_path(), sizes_of(Bytes{8192}, 1, GetParam()), {{Bytes{0}, Bytes{5000}}});
  std::vector<std::byte> memory = noise(5000, 1);
  file.start_read(0, Bytes{0}, memory);
  file.wait(0);
  EXPECT_EQ(memory, std::vector<std::byte>(5000));
  EXPECT_EQ(file.written(), Bytes{0});
}

TEST_P(PageFileOf, LeavesNothingInTheFolder) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "plimsoll-page-file-test";
  std::filesystem::create_directory(folder);
  {
    PageFile file(folder, sizes_of(Bytes{4096}, 1, GetParam()), {{Bytes{0}, Bytes{4096}}});
    EXPECT_TRUE(std::filesystem::is_empty(folder)) << "a kill at any time leaves nothing behind";
  }
  std::filesystem::remove(folder);
}

std::string code_of(const std::filesystem::path& folder, Bytes size) {
  try {
    PageFile(folder, {size, 1, kStaging, 1}, {});
  } catch (const Error& error) {
    EXPECT_EQ(error.exit, ExitCode::data);
    return error.code;
  }
  return "";
}

TEST(PageFile, RefusesFoldersAndSizesThatCannotBe) {
  EXPECT_EQ(code_of("/nowhere/at/all", Bytes{4096}), "E-DISK-FOLDER");
  EXPECT_EQ(code_of("/proc", Bytes{4096}), "E-DISK-FOLDER");
  EXPECT_EQ(code_of(std::filesystem::temp_directory_path(), Bytes{std::int64_t{1} << 60}), "E-DISK-FULL");
}

TEST(PageFile, ARefusedRingIsAnError) {
  std::string refusal, code;
  std::thread([&] {
    if (!refuse_io_uring()) return;
    refusal = io_uring_refusal();
    try {
      PageFile(std::filesystem::temp_directory_path(), sizes_of(Bytes{4096}, 1, TransferEngine::io_uring), {});
    } catch (const Error& error) {
      code = error.code;
    }
  }).join();
  if (refusal.empty()) GTEST_SKIP() << "no seccomp filters here";
  EXPECT_EQ(code, "E-DISK-IO");
}

TEST(PageFile, RefusalsSayWhatToDo) {
  try {
    PageFile("/nowhere/at/all", {kMiB * 5 + Bytes{4096}, 1, kStaging, 1}, {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.remedies, Remedies{Change("memory.disk", "ANOTHER_FOLDER:6MiB")});
  }
}

// The file is truncated from outside.
TEST_P(PageFileOf, FailuresSayHowToContinue) {
  PageFile file(std::filesystem::temp_directory_path(), sizes_of(Bytes{8192}, 1, GetParam()), {{Bytes{0}, Bytes{8192}}});
  std::vector<std::byte> memory = noise(8192, 1);
  file.start_write(0, Bytes{0}, memory);
  file.wait(0);
  ASSERT_EQ(::ftruncate(file.fd(), 4096), 0);
  file.start_read(0, Bytes{0}, memory);
  try {
    file.wait(0);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code, "E-DISK-IO");
    const std::vector<Change> changes{{"command.run", "DIR"}, {"command.resume"}, {"memory.disk", "ANOTHER_FOLDER:1MiB"}};
    EXPECT_EQ(error.remedies, Remedies{Remedy::of_command("train CONFIG", changes)});
  }
}

std::string code_of_wait(PageFile& file, std::uint32_t event) {
  try {
    file.wait(event);
  } catch (const Error& error) {
    return error.code;
  }
  return "";
}

TEST_P(PageFileOf, CorruptionIsFoundWhereItIs) {
  const Bytes size = kStaging * 3;
  PageFile file(std::filesystem::temp_directory_path(), sizes_of(size * 2, 2, GetParam(), 2), {{Bytes{0}, size}, {size, size}});
  std::vector<std::byte> one = noise(static_cast<std::size_t>(size.n), 1), two = one, back = one;
  file.start_write(0, Bytes{0}, one);
  file.start_write(1, size, two);
  file.wait(0), file.wait(1);
  alignas(4096) static std::byte wrong[4096];
  ASSERT_EQ(::pwrite(file.fd(), wrong, sizeof wrong, (kStaging * 2).n), 4096);
  file.start_read(0, Bytes{0}, one);
  file.start_read(1, size, two);
  EXPECT_EQ(code_of_wait(file, 0), "E-DISK-CORRUPT");
  EXPECT_EQ(code_of_wait(file, 1), "");
  EXPECT_EQ(two, back);
  file.start_write(0, Bytes{0}, back);  // a transfer that failed leaves its slot to others
  EXPECT_EQ(code_of_wait(file, 0), "");
}

// The limit on file size ends within a part: the disk takes some of it, and then refuses the rest.
TEST_P(PageFileOf, WhatTheDiskRefusesIsNamed) {
  const Bytes size = kStaging * 2;
  PageFile file(std::filesystem::temp_directory_path(), sizes_of(size, 1, GetParam()), {{Bytes{0}, size}});
  const std::vector<std::byte> memory = noise(static_cast<std::size_t>(size.n), 1);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = static_cast<rlim_t>(kStaging.n / 2);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  file.start_write(0, Bytes{0}, memory);
  const std::string code = code_of_wait(file, 0);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(code, "E-DISK-IO");
  EXPECT_EQ(file.written(), Bytes{0});
}

std::ptrdiff_t open_files() { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); }

// Transfers that have begun end, others are dropped, and nothing is written to freed memory.
TEST_P(PageFileOf, EndsWhileTransfersAreUnderWay) {
  constexpr int kPieces = 32;
  const std::ptrdiff_t before = open_files();
  const Bytes size = kStaging * 2;
  std::vector<PageFile::Piece> pieces;
  for (int i = 0; i < kPieces; ++i) pieces.push_back({size * i, size});
  for (int round = 0; round < 10; ++round) {
    std::vector<std::byte> memory = noise(static_cast<std::size_t>(size.n), 1);
    PageFile file(std::filesystem::temp_directory_path(), sizes_of(size * kPieces, kPieces, GetParam(), 4), pieces);
    for (std::uint32_t i = 0; i < kPieces; ++i) file.start_write(i, pieces[i].offset, memory);
    file.wait(static_cast<std::uint32_t>(round));
    EXPECT_GT(open_files(), before);
  }
  EXPECT_EQ(open_files(), before) << "file and ring are closed";
}

// A read does not wait for all earlier writes, nor the other way round.
TEST_P(PageFileOf, EachWayHasALaneOfItsOwn) {
  constexpr std::uint32_t kMany = 64, kOne = kMany;
  const Bytes size = kStaging * 8;
  const NamelessFile file(std::filesystem::temp_directory_path(), size * (kMany + 1));
  std::vector<StoredPiece> pieces;
  for (std::uint32_t i = 0; i <= kMany; ++i) pieces.push_back({size * i, size});
  std::vector<std::byte> from = noise(static_cast<std::size_t>(size.n), 1), to(from.size()), other = from;
  const Arena staging(kStaging * 2);
  for (const bool many_read : {false, true}) {
    std::vector<std::uint32_t> order;
    std::mutex mutex;
    std::condition_variable over;
    const auto transfers =
        make_transfers(GetParam(), {file, staging.all(), 2, [&](std::uint32_t event, const std::optional<Error>& error) {
                                      EXPECT_FALSE(error);
                                      const std::lock_guard lock(mutex);
                                      order.push_back(event);
                                      over.notify_one();
                                    }});
    for (std::uint32_t i = 0; i < kMany; ++i) {
      transfers->start({i, many_read, &pieces[i], many_read ? to.data() : from.data()});
    }
    transfers->start({kOne, !many_read, &pieces[kOne], other.data()});
    std::unique_lock lock(mutex);
    over.wait(lock, [&] { return order.size() == kMany + 1; });
    const auto place = std::ranges::find(order, kOne) - order.begin();
    EXPECT_LT(place, kMany - 1) << many_read << ": one queue of two slots would end it last or last but one";
    order.erase(order.begin() + place);
    EXPECT_TRUE(std::ranges::is_sorted(order)) << "a lane keeps its order";
  }
  EXPECT_EQ(to, from);
}

// A disk that moves one block at a time, and is interrupted before each; the piece lies where a callback says, or in memory that
// suits the disk, or not.
class MovingPieces : public testing::Test {
 protected:
  static constexpr Bytes kSize = kMiB * 2 + Bytes{4196};

  MovingPieces()
      : file_(std::filesystem::temp_directory_path(), kMiB * 4),
        disk_(static_cast<std::size_t>((kMiB * 4).n)),
        staging_(static_cast<std::size_t>(kStaging.n)) {}

  int go(MovingPiece piece, bool read, bool meanwhile) {
    int moves = 0;
    while (const auto blocks = piece.next()) {
      if (meanwhile) piece.meanwhile();
      piece.moved(++moves % 2 == 1 ? -EINTR : -EAGAIN);
      EXPECT_EQ(piece.next()->offset, blocks->offset);
      std::byte* there = disk_.data() + blocks->offset;
      std::memcpy(read ? blocks->memory.data() : there, read ? there : blocks->memory.data(), 4096);
      piece.moved(4096);
    }
    return moves;
  }

  NamelessFile file_;
  std::vector<std::byte> disk_, staging_;
  StoredPiece stored_{kStaging, kSize};
};

TEST_F(MovingPieces, GoOnWhereTheDiskHasStopped) {
  const auto bytes = static_cast<std::size_t>(kSize.n);
  const int blocks = static_cast<int>(kSize.n / 4096 + 1);
  const Arena memory(kMiB * 3);
  for (const int shift : {0, 4096, 4}) {
    for (const bool meanwhile : {false, true}) {
      const std::vector<std::byte> data = noise(bytes, 1);
      std::byte* const there = memory.base() + shift;
      std::ranges::copy(data, there);
      EXPECT_EQ(go({file_, stored_, false, staging_, there}, false, meanwhile), blocks);
      std::ranges::fill(memory.all(), std::byte{165});
      EXPECT_EQ(go({file_, stored_, true, staging_, there}, true, meanwhile), blocks);
      EXPECT_TRUE(std::ranges::equal(std::span(there, bytes), data)) << shift;
      std::vector<std::byte> back;
      const auto keep = [&](std::span<std::byte> part) { back.insert(back.end(), part.begin(), part.end()); };
      EXPECT_EQ(go({file_, stored_, true, staging_, keep}, true, meanwhile), blocks);
      EXPECT_EQ(back, data);
      disk_[static_cast<std::size_t>(stored_.offset.n) + 5000] ^= std::byte{1};
      EXPECT_THROW(go({file_, stored_, true, staging_, there}, true, meanwhile), Error);
      std::size_t at = 0;
      const auto give = [&](std::span<std::byte> part) {
        std::memcpy(part.data(), data.data() + at, part.size());
        at += part.size();
      };
      EXPECT_EQ(go({file_, stored_, false, staging_, give}, false, meanwhile), blocks);
      EXPECT_EQ(go({file_, stored_, true, staging_, there}, true, meanwhile), blocks);
      EXPECT_TRUE(std::ranges::equal(std::span(there, bytes), data)) << shift;
    }
  }
}

TEST_F(MovingPieces, NameWhatTheDiskSays) {
  stored_.written = true;
  const Arena memory(kMiB * 3);
  for (const int error : {EIO, ENOSPC}) {
    MovingPiece piece(file_, stored_, true, staging_, memory.base());
    ASSERT_TRUE(piece.next());
    try {
      piece.moved(-error);
      FAIL() << "no error";
    } catch (const Error& caught) {
      EXPECT_EQ(caught.code, "E-DISK-IO");
      EXPECT_NE(caught.message.find(std::strerror(error)), std::string::npos) << caught.message;
    }
  }
}

TEST_F(MovingPieces, BeginAsZerosWhereNothingIsCopied) {
  const Arena memory(kMiB * 3);
  std::ranges::fill(memory.all(), std::byte{165});
  EXPECT_EQ(go({file_, stored_, true, staging_, memory.base()}, true, true), 0);
  const std::span<std::byte> all = memory.all();
  const auto zero = [](std::byte byte) { return byte == std::byte{0}; };
  EXPECT_TRUE(std::ranges::all_of(all.first(static_cast<std::size_t>(kSize.n)), zero));
  EXPECT_EQ(all[static_cast<std::size_t>(kSize.n)], std::byte{165});
}

// Whole blocks at a suitable address move directly, in any number of parts. A rest that fits the staging goes through it.
TEST_F(MovingPieces, CopyNoMoreThanTheStagingHolds) {
  const Arena memory(kMiB * 3);
  MovingPiece piece(file_, stored_, false, staging_, memory.base());
  std::vector<std::int64_t> parts;
  while (const auto blocks = piece.next()) {
    const std::int64_t done = blocks->offset - stored_.offset.n;
    EXPECT_EQ(blocks->memory.data(), parts.size() < 2 ? memory.base() + done : staging_.data());
    parts.push_back(static_cast<std::int64_t>(blocks->memory.size()));
    piece.moved(parts.back());
  }
  EXPECT_EQ(parts, (std::vector<std::int64_t>{kMiB.n, kMiB.n, 8192}));
}

TEST(PageFile, StagingIsAWholeNumberOfBlocks) {
  for (const std::int64_t staging : {0, -4096, 100, 4100}) {
    EXPECT_THROW(PageFile(std::filesystem::temp_directory_path(), {Bytes{4096}, 1, Bytes{staging}, 1}, {}), Error) << staging;
  }
}

// Each thread reserves address space for its stack. If that runs out, the started threads end with the file.
TEST(PageFile, AThreadThatCannotStartIsAnError) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers need address space of their own";
#endif
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  rlimit small = before;
  small.rlim_cur = static_cast<rlim_t>(pages * ::sysconf(_SC_PAGESIZE) + (96 << 20));
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &small), 0);
  std::string code;
  try {
    PageFile(std::filesystem::temp_directory_path(), {Bytes{4096}, 200, kStaging, 1}, {});
  } catch (const Error& error) {
    code = error.code;
  }
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(code, "E-DISK-IO");
  EXPECT_EQ(code_of(std::filesystem::temp_directory_path(), Bytes{4096}), "");
}

TEST(PageFile, AFullDiskIsNamed) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 1 << 20;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_EQ(code_of(std::filesystem::temp_directory_path(), Bytes{4 << 20}), "E-DISK-FULL");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
}

}  // namespace
}  // namespace plimsoll
