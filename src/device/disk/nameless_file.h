// A preallocated file without a name, which disappears with the process even after a crash. Reads and writes bypass the page
// cache if the file system allows it (O_DIRECT).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "base/bytes.h"
#include "base/error.h"

namespace plimsoll {

// The block of O_DIRECT: offsets and sizes, also of the staging, are multiples of it.
inline constexpr Bytes kDiskBlock{4096};

class NamelessFile {
 public:
  // Throws data_error E-DISK-FOLDER if the folder takes no file, E-DISK-FULL if the disk has no room.
  NamelessFile(const std::filesystem::path& folder, Bytes size);
  ~NamelessFile();
  NamelessFile(const NamelessFile&) = delete;
  NamelessFile& operator=(const NamelessFile&) = delete;

  int fd() const { return fd_; }
  bool direct() const { return direct_; }
  // Counts the bytes of a write, on any thread; written() is the sum so far.
  void count(Bytes written) const { written_.fetch_add(written.n, std::memory_order_relaxed); }
  Bytes written() const { return Bytes{written_.load(std::memory_order_relaxed)}; }
  // True if whole blocks move from and to this address without a copy.
  bool takes(const std::byte* memory) const;

  // E-DISK-IO or E-DISK-CORRUPT with the message and the command that continues in another folder.
  Error failure(std::string message) const;
  Error corruption(std::string message) const;

 private:
  Remedy continue_elsewhere() const;

  std::string folder_;
  Bytes size_;
  int fd_;
  bool direct_ = false;
  std::uint32_t alignment_ = 1;  // of memory addresses, in bytes
  mutable std::atomic<std::int64_t> written_{0};
};

}  // namespace plimsoll
