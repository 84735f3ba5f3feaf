#include "formats/file_stamp.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace plimsoll {
namespace {

constexpr const char* kExpected = "a file that nobody writes to meanwhile";
constexpr const char* kRemedy = "the same command again, once the file is complete";

struct stat status_of(const File& file) {
  struct stat status {};
  if (::fstat(file.fd(), &status) != 0) {
    throw data_error("E-IO-READ", file.path(), fmt::format("it cannot be inspected: {}", std::strerror(errno)));
  }
  return status;
}

}  // namespace

FileStamp stamp_of(const File& file) {
  constexpr std::int64_t kNanoseconds = 1'000'000'000;
  const struct stat status = status_of(file);
  return {static_cast<std::uint64_t>(status.st_dev), static_cast<std::uint64_t>(status.st_ino), status.st_size,
          status.st_mtim.tv_sec * kNanoseconds + status.st_mtim.tv_nsec};
}

void require_unchanged(const File& file, const FileStamp& since) {
  const FileStamp now = stamp_of(file);
  if (now == since) return;
  const bool other = now.device != since.device || now.inode != since.inode;
  const std::string what = other                    ? "another file lies there now"
                           : now.size != since.size ? fmt::format("it had {} bytes and has {} now", since.size, now.size)
                                                    : "it has been written to";
  throw data_error("E-DATA-CHANGED", file.path(), fmt::format("it has changed while it was in use: {}", what), kExpected,
                   {kRemedy});
}

Error changed_data(std::string path) {
  return data_error("E-DATA-CHANGED", std::move(path), "it has changed while it was read: a second look found other content",
                    kExpected, {kRemedy});
}

std::optional<File> open_own_file(const std::filesystem::path& path) {
  struct stat link {};
  if (::lstat(path.c_str(), &link) != 0 || !S_ISREG(link.st_mode)) return {};
  try {
    File file = File::open(path);
    // The opened file may be another one than the file that lstat() saw.
    const struct stat status = status_of(file);
    const bool same = status.st_dev == link.st_dev && status.st_ino == link.st_ino;
    const bool own = status.st_uid == ::geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
    return same && own ? std::optional(std::move(file)) : std::nullopt;
  } catch (const Error&) {
    return {};
  }
}

}  // namespace plimsoll
