#include "formats/past_cache.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace plimsoll {
namespace {

constexpr std::size_t kSector = 4096;

int open_direct(const std::filesystem::path& path) {
  const int direct = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
  return direct >= 0 || errno != EINVAL ? direct : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
}

}  // namespace

PastCache::PastCache(const std::filesystem::path& path, Bytes buffer)
    : path_(path),
      fd_(open_direct(path)),
      size_(buffer.n),
      buffer_(static_cast<std::byte*>(std::aligned_alloc(kSector, static_cast<std::size_t>(size_))), std::free) {
  if (fd_ < 0) throw data_error("E-IO-MISSING", path.string(), std::strerror(errno), "a file that can be read");
  ::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
}

PastCache::~PastCache() {
  if (fd_ < 0) return;
  ::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
  ::close(fd_);
}

void PastCache::load(std::int64_t block) {
  block_ = block, filled_ = 0;
  while (filled_ < size_) {
    const ssize_t got = ::pread(fd_, buffer_.get() + filled_, static_cast<std::size_t>(size_ - filled_), block + filled_);
    if (got < 0 && errno == EINTR) continue;
    // A file system may open a file for direct reads and refuse them.
    if (got < 0 && errno == EINVAL && std::exchange(direct_, false)) {
      ::close(fd_);
      fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
      continue;
    }
    if (got < 0) throw data_error("E-IO-READ", path_.string(), std::strerror(errno), "a file that can be read");
    if (got == 0) return;
    filled_ += got;
    if (direct_ && got % static_cast<ssize_t>(kSector) != 0) return;  // the end of the file
  }
}

void PastCache::read(std::int64_t begin, std::int64_t bytes, const std::function<void(std::span<const std::byte>)>& see) {
  for (std::int64_t at = begin; at < begin + bytes;) {
    const std::int64_t block = at / size_ * size_;
    if (block != block_) load(block);
    const std::int64_t end = std::min(begin + bytes, block_ + filled_);
    if (end <= at) throw data_error("E-IO-READ", path_.string(), "it ends too early", "the bytes that were written");
    see({buffer_.get() + (at - block_), static_cast<std::size_t>(end - at)});
    at = end;
  }
}

}  // namespace plimsoll
