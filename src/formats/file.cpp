#include "formats/file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace plimsoll {
namespace {

// The first line of a pointer of Git LFS, which stands in a repository for a large file that was not fetched.
constexpr std::string_view kLfsPointer = "version https://git-lfs.github.com/spec/";
constexpr std::int64_t kMostPointerBytes = 1024;

void refuse_pointer(const File& file) {
  if (file.size() < std::ssize(kLfsPointer) || file.size() > kMostPointerBytes) return;
  std::array<char, kLfsPointer.size()> begin{};
  file.read_at(0, std::as_writable_bytes(std::span(begin)));
  if (std::string_view(begin.data(), begin.size()) != kLfsPointer) return;
  const std::string folder = std::filesystem::path(file.path()).parent_path().string();
  throw data_error("E-IO-LFS", file.path(), "it is a pointer of Git LFS, not the file itself", "the file that the pointer names",
                   {fmt::format("git -C {} lfs pull", folder.empty() ? "." : folder)});
}

}  // namespace

File File::open(const std::filesystem::path& path, const std::string& missing_code) {
  File file;
  file.path_ = path.string();
  const auto refuse = [&](std::string why) { return data_error(missing_code, file.path_, std::move(why), "a readable file"); };
  // Without O_NONBLOCK, opening a pipe without a writer would block.
  file.fd_ = ::open(file.path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.fd_ < 0) throw refuse(fmt::format("it cannot be opened: {}", std::strerror(errno)));
  struct stat status {};
  if (::fstat(file.fd_, &status) != 0) throw refuse(fmt::format("it cannot be inspected: {}", std::strerror(errno)));
  if (S_ISDIR(status.st_mode)) throw refuse("it is a folder, not a file");
  if (!S_ISREG(status.st_mode)) throw refuse("it is a device, pipe or socket, not a file");
  file.size_ = status.st_size;
  refuse_pointer(file);
  return file;
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

File::File(File&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), size_(std::exchange(other.size_, 0)), path_(std::move(other.path_)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

void File::read_at(std::int64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(fd_, bytes.data(), bytes.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw data_error("E-IO-READ", path_, fmt::format("reading at byte {} failed: {}", offset, std::strerror(errno)));
    }
    if (got == 0) {
      throw data_error("E-IO-READ", path_, fmt::format("it ends at byte {}, {} bytes early", offset, bytes.size()),
                       fmt::format("the {} bytes that it had when it was opened", size_));
    }
    offset += got;
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
}

void File::forget(std::int64_t offset, std::int64_t bytes) const noexcept {
  [[maybe_unused]] const int advice = ::posix_fadvise(fd_, offset, bytes, POSIX_FADV_DONTNEED);
}

bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

Bytes file_bytes(const std::filesystem::path& path) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  return Bytes{error ? 0 : static_cast<std::int64_t>(size)};
}

std::string read_text(const std::filesystem::path& path, std::int64_t limit, const std::string& code) {
  const File file = File::open(path);
  if (file.size() > limit) {
    throw data_error(code, file.path(), fmt::format("it has {} bytes", file.size()), fmt::format("at most {} bytes", limit));
  }
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace plimsoll
