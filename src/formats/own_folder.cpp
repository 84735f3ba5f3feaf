#include "formats/own_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <system_error>

namespace plimsoll {
namespace {

constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;

// An administrator may have replaced a user's folder by a link.
bool is_trusted_link(const std::filesystem::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return false;
  return !S_ISLNK(status.st_mode) || status.st_uid == ::geteuid() || status.st_uid == 0;
}

}  // namespace

bool is_own_folder(const std::filesystem::path& folder) {
  struct stat status {};
  if (!is_trusted_link(folder) || ::stat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return false;
  if (status.st_uid != ::geteuid()) return false;
  if ((status.st_mode & kOthersWrite) == 0) return true;
  return ::chmod(folder.c_str(), status.st_mode & ~kOthersWrite & 07777) == 0 && ::stat(folder.c_str(), &status) == 0 &&
         (status.st_mode & kOthersWrite) == 0;
}

bool make_own_folder(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (folder.has_parent_path()) std::filesystem::create_directories(folder.parent_path(), ignored);
  ::mkdir(folder.c_str(), 0755);
  return is_own_folder(folder) && ::access(folder.c_str(), W_OK | X_OK) == 0;
}

}  // namespace plimsoll
