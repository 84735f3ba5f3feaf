#include "formats/atomic_folder.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "formats/atomic_file.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

fs::path resolved(const fs::path& target) {
  std::error_code error;
  fs::path path = fs::is_symlink(target, error) ? fs::canonical(target, error) : fs::absolute(target, error);
  if (error) path = target;
  return path.has_filename() ? path : path.parent_path();
}

// Named like a temporary file, by target and process.
fs::path aside_of(const fs::path& target) { return target.parent_path() / partial_name(target.filename().string()); }

// The old folder during a swap by renames: "weights.replaced.plimsoll.partial-77".
fs::path replaced_of(fs::path target) {
  target += kReplaced;
  return aside_of(target);
}

// 0, or the error. Some file systems cannot sync a folder and say so with EINVAL.
int sync_path(const fs::path& path, int flags = O_NOFOLLOW) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
  if (fd < 0) return errno;
  const int error = ::fsync(fd) == 0 || errno == EINVAL ? 0 : errno;
  ::close(fd);
  return error;
}

// Syncs the folder and all files in it. Links are part of their folder.
int sync_tree(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(folder, error)) {
    const fs::file_type type = entry.symlink_status(error).type();
    if (type != fs::file_type::regular && type != fs::file_type::directory) continue;
    if (const int failed = sync_path(entry.path())) return failed;
  }
  return error ? error.value() : sync_path(folder);
}

}  // namespace

void recover_folder(const fs::path& given, bool sole) {
  std::error_code ignored;
  const fs::path target = resolved(given);
  const std::string name = target.filename().string();
  std::vector<fs::path> left;
  for (const auto& entry : fs::directory_iterator(target.parent_path(), ignored)) {
    const bool of_target = is_partial_of(entry.path(), name) || is_partial_of(entry.path(), name + std::string(kReplaced));
    if (!of_target || fs::is_symlink(entry.path(), ignored)) continue;
    if (!fs::is_directory(entry.path(), ignored) || !(sole || is_abandoned_partial(entry.path()))) continue;
    left.push_back(entry.path());
  }
  for (const fs::path& path : left) {
    const bool replaced = path.filename().string().starts_with(name + std::string(kReplaced));
    if (replaced && !fs::exists(target, ignored)) {
      fs::rename(path, target, ignored);
    } else {
      fs::remove_all(path, ignored);
    }
  }
}

AtomicFolder::AtomicFolder(const fs::path& target) : target_(resolved(target)), aside_(aside_of(target_)) {
  std::error_code ignored;
  recover_folder(target_);
  remove_left_behind(target_.parent_path());
  fs::remove_all(aside_, ignored);  // left by a process with the same number
  struct stat status {};
  const bool there = ::lstat(target_.c_str(), &status) == 0;
  if (there && S_ISLNK(status.st_mode)) fail(target_, "it is a link that leads nowhere", ENOENT);
  if (there && !S_ISDIR(status.st_mode)) fail(target_, "it is not a folder", ENOTDIR);
  if (::mkdir(aside_.c_str(), 0777) != 0) fail(aside_, "the folder cannot be created", errno);
  if (there) [[maybe_unused]]
    const int same_mode = ::chmod(aside_.c_str(), (status.st_mode & 07777) | S_IRWXU);
  lock_ = ::open(aside_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (lock_ >= 0) ::flock(lock_, LOCK_EX | LOCK_NB);  // some file systems have no locks
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!aside_.empty()) fs::remove_all(aside_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

void AtomicFolder::keep(const fs::path& from, const std::function<bool(const std::string& name)>& left_out) const {
  std::error_code error;
  const bool own = fs::equivalent(from, target_, error);
  for (const auto& entry : fs::directory_iterator(from, error)) {
    const fs::path& path = entry.path();
    const std::string name = path.filename().string();
    if (left_out(name) || is_partial(path)) continue;
    const fs::path to = aside_ / path.filename();
    std::error_code failed;
    if (own && entry.symlink_status(failed).type() == fs::file_type::regular) {
      fs::create_hard_link(path, to, failed);
      if (!failed) continue;
    }
    failed.clear();
    // A link of another folder may lead nowhere from here, so its target is copied.
    fs::copy(path, to, fs::copy_options::recursive | (own ? fs::copy_options::copy_symlinks : fs::copy_options::none), failed);
    if (failed) fail(to, fmt::format("{} cannot be copied", path.string()), failed.value());
  }
}

void AtomicFolder::commit(Swap swap) {
  if (const int error = sync_tree(aside_)) fail(aside_, "it cannot be brought to the disk", error);
  struct stat status {};
  if (::lstat(target_.c_str(), &status) != 0) {
    if (::rename(aside_.c_str(), target_.c_str()) != 0) fail(target_, "it cannot be put in place", errno);
    aside_.clear();
  } else if (swap == Swap::renames) {
    swap_by_renames();
  } else if (::renameat2(AT_FDCWD, aside_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) != 0) {
    if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) fail(target_, "it cannot be put in place", errno);
    swap_by_renames();
  }
  // The new folder is in place. Errors from here on lose nothing.
  if (lock_ >= 0) ::close(std::exchange(lock_, -1));
  const int error = sync_path(target_.parent_path(), O_DIRECTORY);
  std::error_code ignored;
  if (!aside_.empty()) fs::remove_all(std::exchange(aside_, {}), ignored);
  if (error != 0) fail(target_, "its folder cannot be brought to the disk", error);
}

void AtomicFolder::swap_by_renames() {
  const fs::path replaced = replaced_of(target_);
  std::error_code ignored;
  fs::remove_all(replaced, ignored);
  if (::rename(target_.c_str(), replaced.c_str()) != 0) fail(target_, "it cannot be moved aside", errno);
  if (::rename(aside_.c_str(), target_.c_str()) != 0) {
    const int error = errno;
    [[maybe_unused]] const int back = ::rename(replaced.c_str(), target_.c_str());
    fail(target_, "it cannot be put in place", error);
  }
  aside_ = replaced;
}

void AtomicFolder::fail(const fs::path& path, const std::string& action, int error) const {
  throw data_error("E-IO-WRITE", path.string(), fmt::format("{}: {}", action, std::strerror(error)),
                   "an existing folder that can be written, with enough free space");
}

}  // namespace plimsoll
