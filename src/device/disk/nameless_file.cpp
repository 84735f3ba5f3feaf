#include "device/disk/nameless_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace plimsoll {
namespace {

// The change to another folder with a budget of the needed size.
Change elsewhere(Bytes size) { return {"memory.disk", fmt::format("ANOTHER_FOLDER:{}MiB", ceil_div(size.n, kMiB.n))}; }

// O_TMPFILE if the file system has it, else a file that loses its name at once.
int open_nameless(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) return fd;
  std::string pattern = (folder / ("plimsoll-pages-" + std::string(6, 'X'))).string();  // mkostemp replaces the Xs
  const int named = ::mkostemp(pattern.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(pattern.c_str());
  return named;
}

int open_file(const std::filesystem::path& folder, Bytes size) {
  const int fd = open_nameless(folder);
  if (fd >= 0) return fd;
  throw data_error("E-DISK-FOLDER", folder.string(), fmt::format("the folder takes no file: {}", std::strerror(errno)),
                   "a folder that can be written", {elsewhere(size)});
}

// Called after preallocation: if the file system cannot preallocate, the C library writes single bytes, which O_DIRECT refuses.
bool make_direct(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && ::fcntl(fd, F_SETFL, flags | O_DIRECT) == 0;
}

// The alignment of addresses for O_DIRECT in bytes; 0 if it does not take blocks of this size. Linux reports it since 6.1.
std::uint32_t direct_alignment(int fd) {
  constexpr auto kBlock = static_cast<std::uint32_t>(kDiskBlock.n);
#ifdef STATX_DIOALIGN
  struct statx facts {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &facts) == 0 && (facts.stx_mask & STATX_DIOALIGN) != 0) {
    const bool blocks = facts.stx_dio_offset_align != 0 && kBlock % facts.stx_dio_offset_align == 0;
    return blocks && facts.stx_dio_mem_align != 0 && kBlock % facts.stx_dio_mem_align == 0 ? facts.stx_dio_mem_align : 0;
  }
#endif
  return kBlock;
}

}  // namespace

NamelessFile::NamelessFile(const std::filesystem::path& folder, Bytes size)
    : folder_(folder.string()), size_(size), fd_(open_file(folder, size)) {
  const int error = ::posix_fallocate(fd_, 0, size.n);
  if (error == 0) {
    const std::uint32_t alignment = direct_alignment(fd_);
    direct_ = alignment != 0 && make_direct(fd_);
    if (direct_) alignment_ = alignment;
    return;
  }
  struct statvfs room {};
  const Bytes left{::fstatvfs(fd_, &room) == 0 ? static_cast<std::int64_t>(room.f_bavail * room.f_frsize) : 0};
  ::close(fd_);
  throw data_error(
      "E-DISK-FULL", folder_,
      fmt::format("{} cannot be set aside there ({}); {} are free", to_text(size), std::strerror(error), to_text(left)),
      "a disk with room for the plan's values", {elsewhere(size)});
}

NamelessFile::~NamelessFile() { ::close(fd_); }

bool NamelessFile::takes(const std::byte* memory) const { return reinterpret_cast<std::uintptr_t>(memory) % alignment_ == 0; }

Remedy NamelessFile::continue_elsewhere() const {
  return Remedy::of_command("train CONFIG", {{"command.run", "DIR"}, {"command.resume"}, elsewhere(size_)});
}

Error NamelessFile::failure(std::string message) const {
  return data_error("E-DISK-IO", folder_, std::move(message), "a disk that works; the last checkpoint is intact",
                    {continue_elsewhere()});
}

Error NamelessFile::corruption(std::string message) const {
  return data_error("E-DISK-CORRUPT", folder_, std::move(message),
                    "a disk that returns the written bytes; the last checkpoint is intact", {continue_elsewhere()});
}

}  // namespace plimsoll
