// A file of tokens in the cache: a header, and the tokens of a text in 2 or 4 little-endian bytes each. A seal binds it to its
// name and its content.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "base/hash.h"
#include "data/sample_counts.h"
#include "formats/atomic_file.h"
#include "formats/file_stamp.h"

namespace plimsoll {

class TokenCacheWriter {
 public:
  // `width`: bytes of a token.
  TokenCacheWriter(const std::filesystem::path& target, std::int64_t width);

  void write(std::span<const std::byte> tokens);
  // Makes the file visible.
  void commit(const SampleCounts& counts);

 private:
  std::filesystem::path target_;
  AtomicFile file_;
  Hasher content_;
  std::int64_t width_, bytes_ = 0;
};

struct TokenCacheFile {
  File file;
  std::int64_t offset = 0;  // of the first token, in bytes
  SampleCounts counts;      // of the text
  FileStamp stamp;          // of the file before it was read
};

// Reads all of the file. data_error E-DATA-FORMAT: it was cut, changed or renamed, or has another width.
TokenCacheFile open_token_cache(File file, std::int64_t width);

}  // namespace plimsoll
