#include "device/disk/page_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

namespace plimsoll {
namespace {

constexpr Bytes kStaging{64 << 10};

std::vector<std::byte> noise(std::size_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> result(bytes);
  for (std::byte& byte : result) byte = static_cast<std::byte>(random());
  return result;
}

TEST(PageFile, GivesBackWhatWasWrittenInAnyOrder) {
  // Sizes below, at and above a staging buffer, with and without a whole number of blocks.
  const std::vector<std::int64_t> sizes{4, 4096, 4100, kStaging.n, kStaging.n + 4, 3 * kStaging.n + 12};
  std::vector<PageFile::Piece> pieces;
  Bytes end;
  for (const std::int64_t size : sizes) {
    pieces.push_back({end, Bytes{size}});
    end += align_up(Bytes{size}, PageFile::kPieceAlignment);
  }
  PageFile file(std::filesystem::temp_directory_path(), {end, 3, kStaging, 2 * sizes.size()}, pieces);
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
  std::vector<std::byte> all;
  file.read(pieces[2].offset, pieces[2].bytes,
            [&](std::span<const std::byte> part) { all.insert(all.end(), part.begin(), part.end()); });
  EXPECT_EQ(all, data[2]);
}

TEST(PageFile, BeginsAsZerosWithoutTouchingTheDisk) {
  PageFile file(std::filesystem::temp_directory_path(), {Bytes{8192}, 1, kStaging, 1}, {{Bytes{0}, Bytes{5000}}});
  std::vector<std::byte> memory = noise(5000, 1);
  file.start_read(0, Bytes{0}, memory);
  file.wait(0);
  EXPECT_EQ(memory, std::vector<std::byte>(5000));
  EXPECT_EQ(file.written(), Bytes{0});
}

TEST(PageFile, LeavesNothingInTheFolder) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "plimsoll-page-file-test";
  std::filesystem::create_directory(folder);
  {
    PageFile file(folder, {Bytes{4096}, 1, kStaging, 1}, {{Bytes{0}, Bytes{4096}}});
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

TEST(PageFile, RefusalsSayWhatToDo) {
  try {
    PageFile("/nowhere/at/all", {kMiB * 5 + Bytes{4096}, 1, kStaging, 1}, {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.remedies, std::vector<std::string>{"--disk ANOTHER_FOLDER:6MiB"});
  }
}

// The file has become shorter behind its back.
TEST(PageFile, FailuresSayHowToContinue) {
  PageFile file(std::filesystem::temp_directory_path(), {Bytes{8192}, 1, kStaging, 1}, {{Bytes{0}, Bytes{8192}}});
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
    EXPECT_EQ(error.remedies, std::vector<std::string>{"plimsoll train CONFIG --run DIR --resume --disk ANOTHER_FOLDER:1MiB"});
  }
}

TEST(PageFile, StagingIsAWholeNumberOfBlocks) {
  for (const std::int64_t staging : {0, -4096, 100, 4100}) {
    EXPECT_THROW(PageFile(std::filesystem::temp_directory_path(), {Bytes{4096}, 1, Bytes{staging}, 1}, {}), Error) << staging;
  }
}

// Each thread reserves address space for its stack; where that ends, those that have started end with the file.
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
