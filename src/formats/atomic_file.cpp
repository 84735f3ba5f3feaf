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
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace plimsoll {
namespace {

// The name "x.plimsoll.partial-77" has the target and the process. An earlier version wrote "x.partial-77".
constexpr std::string_view kPartial = ".partial-", kOwn = ".plimsoll.partial-";

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

// The lock of a live process tells, if the file system has locks. A process number may belong to another process by now, or to
// another container. A file younger than kMoment may not be locked yet. `surely`: only if the lock is free and the process is
// gone.
bool is_abandoned(const std::filesystem::path& file, bool surely = false) {
  constexpr std::time_t kMoment = 60;
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return false;
  struct stat status {};
  const bool known = ::fstat(fd, &status) == 0 && (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode));
  const bool free = ::flock(fd, LOCK_EX | LOCK_NB) == 0, locked = !free && errno == EWOULDBLOCK;
  ::close(fd);
  if (!known || locked) return false;
  const bool gone = ::kill(process_of(file), 0) != 0 && errno == ESRCH;
  if (surely) return gone && free;
  return gone || std::time(nullptr) - status.st_mtime > kMoment;
}

// The kind of a file that is not regular, worded as in a refusal; null for a regular file.
const char* other_kind(mode_t mode) {
  if (S_ISREG(mode)) return nullptr;
  if (S_ISDIR(mode)) return "it is a folder, not a file";
  if (S_ISLNK(mode)) return "it is a link, not a file";
  return "it is a device, pipe or socket, not a file";
}

// linkat() on this link gives an unnamed file its name.
std::string link_of(int fd) { return fmt::format("/proc/self/fd/{}", fd); }

bool links_are_there() {
  static const bool there = ::access("/proc/self/fd", X_OK) == 0;
  return there;
}

// Removes partial files of this target whose processes have ended.
void remove_abandoned_of(const std::filesystem::path& folder, const std::string& name) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::filesystem::path& path = entry.path();
    const std::string other = path.filename().string();
    if (!other.starts_with(name + std::string(kPartial)) && !other.starts_with(name + std::string(kOwn))) continue;
    if (entry.is_regular_file(ignored) && is_abandoned_partial(path)) std::filesystem::remove(path, ignored);
  }
}

std::filesystem::path folder_of(const std::filesystem::path& path) { return path.has_parent_path() ? path.parent_path() : "."; }

Error cannot_replace(const std::filesystem::path& path, std::string what) {
  return data_error("E-IO-WRITE", path.string(), std::move(what), "a new name, or that of a regular file");
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path target, Aside aside)
    : target_(std::move(target)), name_(target_.filename().string()) {
  // The process id separates two writers of one target. The last rename wins, and both files are whole.
  aside_ = partial_name(name_);
  if (name_.empty()) refuse("it names no file");
  folder_ = ::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_ < 0) fail("it cannot be created", errno);
  check_target();
  remove_abandoned_of(folder_of(target_), name_);
  remove_left_behind(folder_of(target_));
  open_aside(aside);
  ::flock(fd_, LOCK_EX | LOCK_NB);  // some file systems have no locks
}

void AtomicFile::check_target() {
  struct stat status {};
  if (::fstatat(folder_, name_.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return;
  if (const char* const what = other_kind(status.st_mode)) refuse(what);
}

// An unnamed file vanishes with its process. Not all file systems have such files.
void AtomicFile::open_aside(Aside aside) {
  if (aside == Aside::unnamed && links_are_there()) fd_ = ::openat(folder_, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0644);
  if (fd_ >= 0) return;
  ::unlinkat(folder_, aside_.c_str(), 0);
  fd_ = ::openat(folder_, aside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (fd_ < 0) fail("it cannot be created", errno);
  named_ = true;
}

void AtomicFile::give_name() {
  if (named_) return;
  ::unlinkat(folder_, aside_.c_str(), 0);
  if (::linkat(AT_FDCWD, link_of(fd_).c_str(), folder_, aside_.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    fail("it cannot be put in place", errno);
  }
  named_ = true;
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
  check_target();
  give_name();
  if (::close(std::exchange(fd_, -1)) != 0) fail("it cannot be closed", errno);
  if (::renameat(folder_, aside_.c_str(), folder_, name_.c_str()) != 0) fail("it cannot be put in place", errno);
  named_ = false;
  // Some file systems cannot fsync a folder and say so with EINVAL; the rename itself has succeeded.
  if (::fsync(folder_) != 0 && errno != EINVAL) fail("its folder cannot be brought to the disk", errno);
  discard();
}

void AtomicFile::discard() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  if (std::exchange(named_, false)) ::unlinkat(folder_, aside_.c_str(), 0);
  if (folder_ >= 0) ::close(std::exchange(folder_, -1));
}

void AtomicFile::fail(std::string_view action, int error) {
  discard();
  throw data_error("E-IO-WRITE", target_.string(), fmt::format("{}: {}", action, std::strerror(error)),
                   "an existing folder that can be written, with enough free space");
}

void AtomicFile::refuse(std::string what) {
  discard();
  throw cannot_replace(target_, std::move(what));
}

std::optional<std::string> other_than_file(const std::filesystem::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return {};
  const char* const what = other_kind(status.st_mode);
  return what == nullptr ? std::nullopt : std::optional<std::string>(what);
}

std::filesystem::path output_file(const std::filesystem::path& named) {
  if (named.empty()) return {};
  std::error_code error;
  std::filesystem::path path = named;
  if (std::filesystem::is_symlink(named, error)) {
    path = std::filesystem::canonical(named, error);
    if (error) {
      throw cannot_replace(
          named, fmt::format("it is a link to {}, which is missing", std::filesystem::read_symlink(named, error).string()));
    }
  }
  if (const std::optional<std::string> what = other_than_file(path)) throw cannot_replace(named, *what);
  if (!std::filesystem::is_directory(folder_of(path), error)) {
    throw data_error("E-IO-WRITE", named.string(), fmt::format("{} is no folder", folder_of(path).string()),
                     "a file in a folder that exists");
  }
  return path;
}

void write_file_atomically(const std::filesystem::path& target, std::string_view text) {
  AtomicFile file(target);
  file.write(text);
  file.commit();
}

std::string partial_name(const std::string& target) { return fmt::format("{}{}{}", target, kOwn, ::getpid()); }

bool is_partial(const std::filesystem::path& file) { return process_of(file) != 0; }
bool is_partial_of(const std::filesystem::path& file, const std::string& target) {
  const std::string name = file.filename().string();
  return is_partial(file) && name.starts_with(target) &&
         (name.find(kPartial) == target.size() || name.find(kOwn) == target.size());
}

bool is_abandoned_partial(const std::filesystem::path& path) { return is_partial(path) && is_abandoned(path); }

void remove_left_behind(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::filesystem::path& path = entry.path();
    const std::string name = path.filename().string();
    if (name.find(kOwn) == std::string::npos || name.find(kReplaced) != std::string::npos) continue;
    if (entry.is_symlink(ignored) || !is_partial(path) || !is_abandoned(path, /*surely=*/true)) continue;
    std::filesystem::remove_all(path, ignored);
  }
}

void remove_abandoned_partials(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (entry.is_regular_file(ignored) && is_abandoned_partial(entry.path())) std::filesystem::remove(entry.path(), ignored);
  }
}

}  // namespace plimsoll
