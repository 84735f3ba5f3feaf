// The pieces of a checkpoint's tensors: each of several ranks has written its parts into a file of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "formats/safetensors.h"
#include "tensor/dtype.h"

namespace plimsoll {

// The elements [begin, end) of a tensor, in one of the files.
struct Piece {
  std::size_t file = 0;
  std::string tensor;
  std::int64_t begin = 0, end = 0;
};

// The part of a tensor from the pieces that hold it, in order. Pieces are read whole, so that their checksums are compared.
class PieceReader {
 public:
  using Compare = std::function<void(const SafetensorsFile&, const StoredTensor&, const Hasher&)>;

  // `pieces`: of one tensor. All references outlive this. E-CKPT-FORMAT if elements [begin, end) are not all there, or are of
  // another type.
  PieceReader(std::span<const SafetensorsFile> files, std::vector<Piece> pieces, DType dtype, std::int64_t begin,
              std::int64_t end, Compare compare);

  // The next bytes.
  void read(std::span<std::byte> part);
  // Called after the last byte.
  void finish();

 private:
  void open_next();
  void read_stored(std::span<std::byte> part);
  void skip_to(std::int64_t byte);

  std::span<const SafetensorsFile> files_;
  std::vector<Piece> pieces_;  // those that overlap, by their begin
  std::int64_t element_;       // bytes
  std::int64_t at_;            // the next byte of the tensor
  Compare compare_;
  std::size_t next_ = 0;  // piece
  const SafetensorsFile* file_ = nullptr;
  const StoredTensor* stored_ = nullptr;  // of the open piece
  std::int64_t origin_ = 0, done_ = 0;    // its first byte in the tensor, and the bytes that have been read
  Hasher hasher_;
  std::vector<std::byte> skipped_;
};

}  // namespace plimsoll
