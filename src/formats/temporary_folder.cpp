#include "formats/temporary_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <string>
#include <system_error>

#include "base/error.h"

namespace plimsoll {
namespace {

constexpr std::string_view kName = "plimsoll-";
constexpr std::size_t kDrawn = 6;  // random characters in the name

int open_folder(const std::filesystem::path& path) {
  return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

// A folder younger than kMoment may not be locked yet.
bool is_abandoned(const std::filesystem::path& path) {
  constexpr std::time_t kMoment = 60;
  const int fd = open_folder(path);
  if (fd < 0) return false;
  struct stat status {};
  const bool free = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
  const bool old = ::fstat(fd, &status) == 0 && std::time(nullptr) - status.st_mtime > kMoment;
  ::close(fd);
  return free && old;
}

}  // namespace

TemporaryFolder::TemporaryFolder(const std::filesystem::path& parent) {
  std::string pattern = (parent / (std::string(kName) + std::string(kDrawn, 'X'))).string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw data_error("E-IO-WRITE", pattern, "no temporary folder can be made there",
                     "a folder that can be written, with free space");
  }
  path_ = pattern;
  lock_ = open_folder(path_);
  if (lock_ >= 0) ::flock(lock_, LOCK_EX | LOCK_NB);  // some file systems have no locks
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

void remove_abandoned_folders(const std::filesystem::path& parent) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(parent, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kName) || name.size() != kName.size() + kDrawn || !is_abandoned(entry.path())) continue;
    std::filesystem::remove_all(entry.path(), ignored);
  }
}

}  // namespace plimsoll
