// A regular file opened for reading. A read delivers all of its bytes into the caller's memory or throws; nothing is mapped or
// buffered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/bytes.h"

namespace plimsoll {

class File {
 public:
  File() = default;
  // data_error with `missing_code` if the path is no readable regular file; E-IO-LFS if it is a pointer of Git LFS.
  static File open(const std::filesystem::path& path, const std::string& missing_code = "E-IO-MISSING");
  ~File();
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;

  int fd() const { return fd_; }
  // Bytes of the file when it was opened.
  std::int64_t size() const { return size_; }
  const std::string& path() const { return path_; }

  // Fills `bytes` from `offset`. data_error E-IO-READ if the read fails or the file ends too early.
  void read_at(std::int64_t offset, std::span<std::byte> bytes) const;
  // Drops these bytes from the page cache. `bytes` 0: to the end of the file.
  void forget(std::int64_t offset, std::int64_t bytes) const noexcept;

 private:
  int fd_ = -1;
  std::int64_t size_ = 0;
  std::string path_;
};

// True if the path leads to a file or folder; false if that cannot be determined.
bool is_there(const std::filesystem::path& path);
// The size of a file; 0 if it is absent.
Bytes file_bytes(const std::filesystem::path& path);

// The content of a small text file. data_error with `code` if it has more than `limit` bytes; E-IO-MISSING if it is absent.
std::string read_text(const std::filesystem::path& path, std::int64_t limit, const std::string& code);

}  // namespace plimsoll
