#include "formats/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace plimsoll {

AtomicFile::AtomicFile(std::filesystem::path target) : target_(std::move(target)), temporary_(target_) {
  // The process id keeps two processes that write one target apart; the last rename wins, and both are whole.
  temporary_ += fmt::format(".partial-{}", ::getpid());
  ::unlink(temporary_.c_str());
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd_ < 0) fail("it cannot be created", errno);
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) fail(fmt::format("writing at byte {} failed", written_), put < 0 ? errno : EIO);
    written_ += put;
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
}

void AtomicFile::commit() {
  if (::fsync(fd_) != 0) fail("it cannot be brought to the disk", errno);
  struct stat status {};
  if (::fstat(fd_, &status) != 0) fail("it cannot be inspected", errno);
  if (status.st_size != written_) fail(fmt::format("{} of {} bytes arrived", status.st_size, written_), EIO);
  if (::close(std::exchange(fd_, -1)) != 0) fail("it cannot be closed", errno);
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) fail("it cannot be put in place", errno);
  temporary_.clear();
  sync_folder();
}

void AtomicFile::sync_folder() {
  const std::filesystem::path folder = target_.has_parent_path() ? target_.parent_path() : ".";
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail("its folder cannot be opened", errno);
  const int error = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  // Some file systems cannot fsync a folder and say so with EINVAL; the rename itself has succeeded.
  if (error != 0 && error != EINVAL) fail("its folder cannot be brought to the disk", error);
}

void AtomicFile::discard() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

void AtomicFile::fail(std::string_view action, int error) {
  discard();
  throw data_error("E-IO-WRITE", target_.string(), fmt::format("{}: {}", action, std::strerror(error)),
                   "an existing folder that can be written, with enough free space");
}

void write_file_atomically(const std::filesystem::path& target, std::string_view text) {
  AtomicFile file(target);
  file.write(text);
  file.commit();
}

}  // namespace plimsoll
