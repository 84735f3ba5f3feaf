// A folder that is replaced as a whole, however the replacing process ends.
#include "formats/atomic_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "expect_error.h"
#include "formats/atomic_file.h"
#include "formats/file.h"
#include "scratch_folder.h"
#include "small_disk.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using Swap = AtomicFolder::Swap;

const auto kNothingLeftOut = [](const std::string&) { return false; };

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {}));
}

// Two files of one generation.
void write_generation(const AtomicFolder& folder, const std::string& text) {
  write_file_atomically(folder.path() / "a", text);
  write_file_atomically(folder.path() / "b", text);
}

TEST(AtomicFolder, AppearsOnCommitOnly) {
  for (const Swap swap : {Swap::exchange, Swap::renames}) {
    const ScratchFolder scratch;
    const fs::path target = scratch / "x";
    for (const char* text : {"old", "new"}) {
      AtomicFolder folder(target);
      write_generation(folder, text);
      EXPECT_NE(read_raw(target / "a"), text);
      folder.commit(swap);
      EXPECT_EQ(read_raw(target / "a"), text);
      EXPECT_EQ(files_in(scratch.path()), 1u);
    }
    {
      AtomicFolder folder(target);
      write_generation(folder, "lost");
    }
    EXPECT_EQ(read_raw(target / "b"), "new");
    EXPECT_EQ(files_in(scratch.path()), 1u);
  }
}

TEST(AtomicFolder, KeepsWhatIsNotLeftOut) {
  const ScratchFolder scratch;
  const fs::path target = scratch / "x";
  fs::create_directories(target / "chat_templates");
  write_raw(target / "chat_templates/one.jinja", "1");
  write_raw(target / "config.json", "{}");
  write_raw(target / "out", "x");
  write_raw(target / "torn.partial-1", "x");
  fs::create_symlink("config.json", target / "link");
  fs::permissions(target, fs::perms::owner_all | fs::perms::group_read);
  AtomicFolder folder(target);
  folder.keep(target, [](const std::string& name) { return name == "out"; });
  write_file_atomically(folder.path() / "config.json", "{1}");
  EXPECT_EQ(read_raw(target / "config.json"), "{}") << "files that are linked are not written through";
  folder.commit();
  EXPECT_EQ(read_raw(target / "config.json"), "{1}");
  EXPECT_EQ(read_raw(target / "chat_templates/one.jinja"), "1");
  EXPECT_EQ(fs::read_symlink(target / "link"), "config.json");
  EXPECT_EQ(files_in(target), 3u);
  EXPECT_EQ(fs::status(target).permissions(), fs::perms::owner_all | fs::perms::group_read);

  AtomicFolder other(scratch / "y");
  other.keep(target, kNothingLeftOut);
  other.keep(scratch / "absent", kNothingLeftOut);
  other.commit();
  EXPECT_EQ(fs::hard_link_count(scratch / "y/config.json"), 1u) << "two folders share no file";
}

TEST(AtomicFolder, NeedsAFolderAroundIt) {
  const ScratchFolder scratch;
  EXPECT_ERROR(AtomicFolder(scratch / "no/x"), "E-IO-WRITE", "No such file");
  write_raw(scratch / "file", "text");
  EXPECT_ERROR(AtomicFolder(scratch / "file"), "E-IO-WRITE", "not a folder");
  EXPECT_EQ(read_raw(scratch / "file"), "text");
  fs::create_symlink("nowhere", scratch / "dangling");
  EXPECT_ERROR(AtomicFolder(scratch / "dangling"), "E-IO-WRITE", "leads nowhere");
  EXPECT_TRUE(fs::is_symlink(scratch / "dangling"));
}

TEST(AtomicFolder, ALinkKeepsLeadingThere) {
  const ScratchFolder scratch, real;
  fs::create_directory(real / "weights");
  fs::create_directory_symlink(real / "weights", scratch / "x");
  AtomicFolder folder(scratch / "x");
  write_generation(folder, "new");
  folder.commit();
  EXPECT_TRUE(fs::is_symlink(scratch / "x"));
  EXPECT_EQ(read_raw(real / "weights/a"), "new");
  // So does one around it.
  fs::create_directory_symlink(real.path(), scratch / "around");
  AtomicFolder inner(scratch / "around/weights");
  write_generation(inner, "newer");
  inner.commit();
  EXPECT_EQ(read_raw(real / "weights/a"), "newer");
}

TEST(AtomicFolder, WhatKilledProcessesLeaveGoes) {
  const ScratchFolder scratch;
  const fs::path target = scratch / "x";
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    AtomicFolder folder(target);
    write_generation(folder, "half");
    kill(getpid(), SIGKILL);
  }
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(fs::exists(scratch / ("x.plimsoll.partial-" + std::to_string(child))));
  fs::create_directory(scratch / "xy.partial-1");  // of another folder
  AtomicFolder folder(target);
  EXPECT_FALSE(fs::exists(scratch / ("x.plimsoll.partial-" + std::to_string(child))));
  write_generation(folder, "new");
  // One that is being written stays.
  AtomicFolder beside(scratch / "y");
  recover_folder(scratch / "y");
  EXPECT_TRUE(fs::exists(beside.path()));
  folder.commit();
  EXPECT_EQ(read_raw(target / "a"), "new");
  EXPECT_TRUE(fs::exists(scratch / "xy.partial-1"));
}

TEST(AtomicFolder, WhatIsLeftOfOtherTargetsGoesToo) {
  const ScratchFolder scratch;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    AtomicFolder folder(scratch / "x");
    write_generation(folder, "half");
    kill(getpid(), SIGKILL);
  }
  waitpid(child, nullptr, 0);
  const std::string left = ".plimsoll.partial-" + std::to_string(child);
  ASSERT_TRUE(fs::exists(scratch / ("x" + left)));
  fs::create_directory(scratch / ("y.replaced" + left));                   // perhaps the only copy
  fs::create_directory(scratch / ("y.partial-" + std::to_string(child)));  // somebody else's
  const AtomicFolder beside(scratch / "z");
  write_file_atomically(scratch / "file", "text");
  EXPECT_FALSE(fs::exists(scratch / ("x" + left)));
  EXPECT_TRUE(fs::exists(scratch / ("y.replaced" + left)));
  EXPECT_TRUE(fs::exists(scratch / ("y.partial-" + std::to_string(child))));
  EXPECT_TRUE(fs::exists(beside.path()));
}

// The state between the two renames on a file system that cannot exchange.
TEST(AtomicFolder, IsPutBackAfterACrashBetweenRenames) {
  const ScratchFolder scratch;
  const fs::path target = scratch / "x", replaced = scratch / "x.replaced.partial-1", aside = scratch / "x.partial-1";
  const auto crash = [&] {
    for (const fs::path& path : {target, replaced, aside}) fs::remove_all(path);
    fs::create_directory(replaced);
    fs::create_directory(aside);
    write_raw(replaced / "a", "old");
    write_raw(aside / "a", "half");
  };
  crash();
  recover_folder(target, /*sole=*/true);
  EXPECT_EQ(read_raw(target / "a"), "old");
  EXPECT_EQ(files_in(scratch.path()), 1u);
  crash();
  fs::create_directory(target);
  write_raw(target / "a", "new");
  recover_folder(target, /*sole=*/true);
  EXPECT_EQ(read_raw(target / "a"), "new");
  EXPECT_EQ(files_in(scratch.path()), 1u);
}

// A reader of the folder sees two files of one generation, or finds that one of them has gone with the old folder.
TEST(AtomicFolder, AReaderSeesOneGeneration) {
  const ScratchFolder scratch;
  const fs::path target = scratch / "x";
  const auto write = [&](int generation) {
    AtomicFolder folder(target);
    write_generation(folder, std::to_string(generation));
    folder.commit();
  };
  write(0);
  std::atomic<bool> done = false;
  int mixed = 0, absent = 0, seen = 0;
  std::thread reader([&] {
    while (!done) {
      const int folder = open(target.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
      if (folder < 0) {
        ++absent;
        continue;
      }
      std::string texts[2];
      for (int i = 0; i < 2; ++i) {
        const int file = openat(folder, i == 0 ? "a" : "b", O_RDONLY | O_CLOEXEC);
        char text[16] = {};
        if (file >= 0 && read(file, text, 15) > 0) texts[i] = text;
        if (file >= 0) close(file);
      }
      close(folder);
      ++seen;
      mixed += !texts[0].empty() && !texts[1].empty() && texts[0] != texts[1];
    }
  });
  for (int generation = 1; generation < 60; ++generation) write(generation);
  done = true;
  reader.join();
  EXPECT_EQ(absent, 0);
  EXPECT_EQ(mixed, 0);
  EXPECT_GT(seen, 60);
}

// Runs in a child process. 0: as expected, 1: wrong, 2: not permitted.
int full_disk_child(const fs::path& scratch) {
  if (!mount_small(scratch, "size=256k")) return 2;
  const fs::path target = scratch / "x";
  {
    AtomicFolder folder(target);
    write_generation(folder, std::string(64 << 10, 'o'));
    folder.commit();
  }
  try {
    AtomicFolder folder(target);
    folder.keep(target, [](const std::string& name) { return name == "a"; });
    write_file_atomically(folder.path() / "c", std::string(1 << 20, 'n'));
    return 1;
  } catch (const Error& error) {
    const bool told = error.code == "E-IO-WRITE" && std::string(error.what()).find("No space left") != std::string::npos;
    return told && read_raw(target / "a") == std::string(64 << 10, 'o') && files_in(target) == 2 && files_in(scratch) == 1 ? 0
                                                                                                                           : 1;
  }
}

TEST(AtomicFolder, AFullDiskLeavesTheOldOne) {
  const ScratchFolder scratch;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(full_disk_child(scratch.path()));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "this system does not let a test mount a small file system";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace plimsoll
