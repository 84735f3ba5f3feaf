// Reading of a file from its disk, past the page cache: the check of bytes that were just written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>

#include "base/bytes.h"

namespace plimsoll {

class PastCache {
 public:
  // `buffer`: a multiple of 4 KiB. Where the file system has no direct reads, the file's bytes are dropped from the page cache
  // before and after a read. E-IO-MISSING, E-IO-READ.
  PastCache(const std::filesystem::path& path, Bytes buffer);
  ~PastCache();
  PastCache(const PastCache&) = delete;
  PastCache& operator=(const PastCache&) = delete;

  // Calls see(part) for the bytes [begin, begin + bytes) in pieces. E-IO-READ.
  void read(std::int64_t begin, std::int64_t bytes, const std::function<void(std::span<const std::byte>)>& see);

 private:
  void load(std::int64_t block);

  std::filesystem::path path_;
  int fd_ = -1;
  bool direct_ = true;
  std::int64_t size_;  // of the buffer
  std::unique_ptr<std::byte, void (*)(void*)> buffer_;
  std::int64_t block_ = -1, filled_ = 0;  // the first byte and the number of bytes in the buffer
};

}  // namespace plimsoll
