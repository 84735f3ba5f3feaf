// Reads the arrays of a GGUF file, which may be as large as a vocabulary, element by element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf/gguf_file.h"

namespace plimsoll {

// The elements of an array in order, through a small buffer.
class GgufCursor {
 public:
  // `file` outlives the cursor. E-FORMAT-GGUF: the key is missing, or has no array of such elements.
  static GgufCursor texts(const GgufFile& file, std::string_view key);
  static GgufCursor numbers(const GgufFile& file, std::string_view key);

  std::uint64_t count() const { return count_; }
  bool at_end() const { return next_ == count_; }
  // The next element. A text is valid until the next call. E-FORMAT-GGUF: it is longer than 64 KiB.
  std::string_view next_text();
  double next_number();

 private:
  GgufCursor(const GgufFile& file, std::string key, const GgufValue& value);
  static GgufCursor of(const GgufFile& file, std::string_view key, const char* elements, bool (*is)(GgufType));
  std::span<const std::byte> take(std::size_t bytes);

  const GgufFile* file_;
  std::string key_;
  GgufType element_;
  std::uint64_t count_ = 0, next_ = 0;
  std::int64_t at_ = 0;              // offset in the file of the bytes after the buffer
  std::size_t begin_ = 0, end_ = 0;  // unread bytes of the buffer
  std::vector<std::byte> buffer_;
};

}  // namespace plimsoll
