#include "formats/atomic_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string>
#include <utility>

#include "base/error.h"

namespace plimsoll {
namespace {

constexpr std::string_view kPartial = ".partial-";

// The process in the name of a temporary file; 0 for any other name.
pid_t process_of(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  const std::size_t at = name.rfind(kPartial);
  if (at == std::string::npos) return 0;
  const char *begin = name.data() + at + kPartial.size(), *end = name.data() + name.size();
  pid_t pid = 0;
  const auto [stop, error] = std::from_chars(begin, end, pid);
  return error == std::errc{} && stop == end && pid > 0 ? pid : 0;
}

// The lock says it where the file system has locks. A process number may be another's by now, or of another container; a file
// that is a moment old may be on its way to its lock.
bool is_abandoned(const std::filesystem::path& file) {
  constexpr std::time_t kMoment = 60;
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return false;
  struct stat status {};
  const bool known = ::fstat(fd, &status) == 0 && (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode));
  const bool locked = ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(fd);
  if (!known || locked) return false;
  const bool gone = ::kill(process_of(file), 0) != 0 && errno == ESRCH;
  return gone || std::time(nullptr) - status.st_mtime > kMoment;
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path target) : target_(std::move(target)), temporary_(target_) {
  // The process id keeps two processes that write one target apart; the last rename wins, and both are whole.
  temporary_ += fmt::format("{}{}", kPartial, ::getpid());
  ::unlink(temporary_.c_str());
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd_ < 0) fail("it cannot be created", errno);
  ::flock(fd_, LOCK_EX | LOCK_NB);  // some file systems have no locks
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

void AtomicFile::overwrite(std::int64_t offset, std::string_view text) {
  ensure(offset >= 0 && offset + std::ssize(text) <= written_, "AtomicFile::overwrite", "the bytes have not been written");
  while (!text.empty()) {
    const ssize_t put = ::pwrite(fd_, text.data(), text.size(), offset);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) fail(fmt::format("writing at byte {} failed", offset), put < 0 ? errno : EIO);
    offset += put;
    text.remove_prefix(static_cast<std::size_t>(put));
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

bool is_partial(const std::filesystem::path& file) { return process_of(file) != 0; }

bool is_abandoned_partial(const std::filesystem::path& path) { return is_partial(path) && is_abandoned(path); }

void remove_abandoned_partials(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (entry.is_regular_file(ignored) && is_abandoned_partial(entry.path())) std::filesystem::remove(entry.path(), ignored);
  }
}

}  // namespace plimsoll
