#include "formats/atomic_file.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "expect_error.h"
#include "formats/file.h"
#include "scratch_folder.h"
#include "small_disk.h"

namespace plimsoll {
namespace {

std::size_t files_in(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST(AtomicFile, AppearsOnCommitOnly) {
  ScratchFolder folder;
  write_raw(folder / "x", "old");
  AtomicFile file(folder / "x");
  file.write("new");
  file.write("er");
  EXPECT_EQ(read_raw(folder / "x"), "old");
  file.commit();
  EXPECT_EQ(read_raw(folder / "x"), "newer");
  EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(AtomicFile, DiscardsWithoutCommit) {
  ScratchFolder folder;
  write_raw(folder / "x", "old");
  { AtomicFile(folder / "x").write("new"); }
  EXPECT_EQ(read_raw(folder / "x"), "old");
  EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(AtomicFile, MissingFolder) {
  ScratchFolder folder;
  EXPECT_ERROR(AtomicFile(folder / "no/x"), "E-IO-WRITE", "No such file");
}

TEST(AtomicFile, TargetIsAFolder) {
  ScratchFolder folder;
  std::filesystem::create_directory(folder / "x");
  EXPECT_ERROR(AtomicFile(folder / "x"), "E-IO-WRITE", "a folder");
  EXPECT_EQ(files_in(folder.path()), 1u);
}

// Files that are not regular stay, also those that appear meanwhile.
TEST(AtomicFile, ReplacesFilesAlone) {
  ScratchFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  write_raw(folder / "real", "old");
  std::filesystem::create_symlink("real", folder / "link");
  std::filesystem::create_symlink("nowhere", folder / "dangling");
  EXPECT_ERROR(AtomicFile(folder / "pipe"), "E-IO-WRITE", "a device, pipe or socket");
  EXPECT_ERROR(AtomicFile("/dev/null"), "E-IO-WRITE", "a device, pipe or socket");
  EXPECT_ERROR(AtomicFile(folder / "link"), "E-IO-WRITE", "it is a link");
  EXPECT_ERROR(AtomicFile(folder / "dangling"), "E-IO-WRITE", "it is a link");
  AtomicFile file(folder / "late");
  file.write("text");
  ASSERT_EQ(mkfifo((folder / "late").c_str(), 0600), 0);
  EXPECT_ERROR(file.commit(), "E-IO-WRITE", "a device, pipe or socket");
  EXPECT_TRUE(std::filesystem::is_fifo(folder / "late"));
  EXPECT_EQ(read_raw(folder / "real"), "old");
  EXPECT_EQ(files_in(folder.path()), 5u);
}

TEST(AtomicFile, NamedOutputsFollowLinksToFiles) {
  ScratchFolder folder;
  write_raw(folder / "real", "old");
  std::filesystem::create_symlink("real", folder / "link");
  std::filesystem::create_symlink("nowhere", folder / "dangling");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("pipe", folder / "to_pipe");
  write_file_atomically(output_file(folder / "link"), "new");
  EXPECT_EQ(read_raw(folder / "real"), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(output_file(folder / "absent"), folder / "absent");
  EXPECT_EQ(output_file(""), "");
  EXPECT_ERROR(output_file(folder / "dangling"), "E-IO-WRITE", "a link to nowhere");
  EXPECT_ERROR(output_file(folder / "to_pipe"), "E-IO-WRITE", "a device, pipe or socket");
  EXPECT_ERROR(output_file(folder.path()), "E-IO-WRITE", "a folder");
  EXPECT_ERROR(output_file(folder / "no/x"), "E-IO-WRITE", "is no folder");
}

TEST(AtomicFile, StaysWithTheFolderThatItWasBegunIn) {
  ScratchFolder folder;
  std::filesystem::create_directory(folder / "a");
  AtomicFile file(folder / "a/x");
  file.write("text");
  std::filesystem::rename(folder / "a", folder / "b");
  std::filesystem::create_directory(folder / "a");
  file.commit();
  EXPECT_EQ(read_raw(folder / "b/x"), "text");
  EXPECT_EQ(files_in(folder / "a"), 0u);
}

TEST(AtomicFile, AKilledProcessLeavesNothingForThoseAfterIt) {
  ScratchFolder folder;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    AtomicFile file(folder / "x");
    file.write("half");
    kill(getpid(), SIGKILL);
  }
  waitpid(child, nullptr, 0);
  write_raw(folder / fmt::format("x.partial-{}", child), "of a file system that keeps it");
  write_raw(folder / fmt::format("xy.partial-{}", child), "of another file");
  write_file_atomically(folder / "x", "whole");
  EXPECT_EQ(read_raw(folder / "x"), "whole");
  EXPECT_TRUE(std::filesystem::exists(folder / fmt::format("xy.partial-{}", child)));
  EXPECT_EQ(files_in(folder.path()), 2u);
}

// The kernel cuts the write that crosses the limit short and fails the next one.
TEST(AtomicFile, ShortWriteThenFailure) {
  ScratchFolder folder;
  write_raw(folder / "x", "old");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  {
    AtomicFile file(folder / "x");
    file.write(std::string(600, 'a'));
    EXPECT_ERROR(file.write(std::string(600, 'b')), "E-IO-WRITE", "writing at byte 1000 failed");
    EXPECT_EQ(files_in(folder.path()), 1u) << "the temporary file is removed at once";
  }
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  EXPECT_EQ(read_raw(folder / "x"), "old");
}

// Runs in a child process. 0: as expected, 1: wrong, 2: not permitted.
int full_disk_child(const std::filesystem::path& folder) {
  if (!mount_small(folder, "size=64k")) return 2;
  write_raw(folder / "x", "old");
  try {
    AtomicFile file(folder / "x");
    file.write(std::string(1 << 20, 'a'));
    return 1;
  } catch (const Error& error) {
    const bool right = error.code == "E-IO-WRITE" && std::string(error.what()).find("No space left") != std::string::npos;
    return right && read_raw(folder / "x") == "old" && files_in(folder) == 1 ? 0 : 1;
  }
}

TEST(AtomicFile, FullDisk) {
  ScratchFolder folder;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(full_disk_child(folder.path()));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "this system does not let a test mount a small file system";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(File, RefusesWhatIsNoFile) {
  ScratchFolder folder;
  EXPECT_ERROR(File::open(folder / "none"), "E-IO-MISSING", "No such file");
  EXPECT_ERROR(File::open(folder.path(), "E-DATA-MISSING"), "E-DATA-MISSING", "is a folder");
  EXPECT_ERROR(File::open("/dev/zero"), "E-IO-MISSING", "device");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_ERROR(File::open(folder / "pipe"), "E-IO-MISSING", "pipe");
}

TEST(File, ShortReadNamesThePlace) {
  ScratchFolder folder;
  write_raw(folder / "x", "0123456789");
  const File file = File::open(folder / "x");
  std::filesystem::resize_file(folder / "x", 6);
  std::array<std::byte, 4> four{};
  file.read_at(2, four);
  EXPECT_EQ(static_cast<char>(four[3]), '5');
  EXPECT_ERROR(file.read_at(4, four), "E-IO-READ", "ends at byte 6, 2 bytes early");
}

TEST(File, TextLimit) {
  ScratchFolder folder;
  write_raw(folder / "x", "0123456789");
  EXPECT_EQ(read_text(folder / "x", 10, "E-FORMAT-CONFIG"), "0123456789");
  EXPECT_ERROR(read_text(folder / "x", 9, "E-FORMAT-CONFIG"), "E-FORMAT-CONFIG", "10 bytes");
}

}  // namespace
}  // namespace plimsoll
