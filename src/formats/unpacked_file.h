// The bytes of a file from begin to end. A gzip file, known by its first bytes, is unpacked on the way. The memory is a few
// buffers, whatever the size of the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "formats/file.h"

namespace plimsoll {

class UnpackedFile {
 public:
  // The file outlives this.
  explicit UnpackedFile(const File& file);
  ~UnpackedFile();
  UnpackedFile(const UnpackedFile&) = delete;
  UnpackedFile& operator=(const UnpackedFile&) = delete;

  // Fills `bytes` with the next ones. Returns fewer at the end of the content, which zeros may follow in a packed file.
  // data_error E-DATA-FORMAT: the packed bytes are broken or cut, or bytes of another kind follow them.
  std::size_t read(std::span<std::byte> bytes);
  // Bytes returned so far.
  std::int64_t position() const { return position_; }
  bool packed() const { return packed_ != nullptr; }
  // An upper bound on all bytes of the content.
  std::int64_t most_bytes() const;

 private:
  struct Packed;

  const File& file_;
  std::int64_t at_ = 0, position_ = 0;  // in the file, in the content
  std::unique_ptr<Packed> packed_;      // null: the file is as it stands
};

}  // namespace plimsoll
