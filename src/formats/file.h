// A regular file opened for reading, with positioned reads that either deliver every byte or throw.
// Reads go straight into the caller's memory; nothing is mapped and nothing is buffered.
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
  // Throws data_error with `missing_code` where the path does not name a readable regular file, E-IO-LFS where it is a pointer
  // of Git LFS.
  static File open(const std::filesystem::path& path, const std::string& missing_code = "E-IO-MISSING");
  ~File();
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;

  int fd() const { return fd_; }
  // Bytes, as they were when the file was opened.
  std::int64_t size() const { return size_; }
  const std::string& path() const { return path_; }

  // Fills `bytes` from `offset`; data_error E-IO-READ where the file fails or ends before.
  void read_at(std::int64_t offset, std::span<std::byte> bytes) const;
  // These bytes need not stay in the page cache. `bytes` 0: to the end of the file.
  void forget(std::int64_t offset, std::int64_t bytes) const noexcept;

 private:
  int fd_ = -1;
  std::int64_t size_ = 0;
  std::string path_;
};

// True if the path leads to anything; false if that cannot be told.
bool is_there(const std::filesystem::path& path);
// The size of a file; 0 where there is none.
Bytes file_bytes(const std::filesystem::path& path);

// A whole small text file. data_error with `code` where it is larger than `limit` bytes; E-IO-MISSING where it is absent.
std::string read_text(const std::filesystem::path& path, std::int64_t limit, const std::string& code);

}  // namespace plimsoll
