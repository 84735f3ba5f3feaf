#include "formats/atomic_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

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
  AtomicFile file(folder / "x");
  file.write("text");
  EXPECT_ERROR(file.commit(), "E-IO-WRITE", "put in place");
  EXPECT_EQ(files_in(folder.path()), 1u);
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
