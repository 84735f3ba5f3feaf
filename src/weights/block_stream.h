// The bytes of a frozen matrix in blocks, in order. Its elements are read in order, each once. Scales come after all codes, so
// they are held until then (encoding_bytes).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "tensor/block_format.h"

namespace plimsoll {

// Elements [first, first + out.size()) of a tensor, row by row.
using ReadElements = std::function<void(std::int64_t first, std::span<float> out)>;

class BlockStream {
 public:
  // int8, nf4 or nf4_nested. Reads begin at multiples of 4. `offset`: of nf4_nested; absent: the mean of the scales.
  BlockStream(const BlockMatrix& matrix, ReadElements read, std::optional<float> offset = std::nullopt);

  // The next bytes; in all stored_bytes(matrix).
  void next(std::span<std::byte> out);

 private:
  void encode_piece();
  void encode_scales();

  BlockMatrix matrix_;
  ReadElements read_;
  std::optional<float> offset_;
  std::int64_t piece_;  // elements encoded at a time
  std::int64_t taken_ = 0, made_ = 0;
  std::vector<float> elements_, scales_;
  std::vector<std::byte> bytes_;  // encoded
  std::size_t given_ = 0;         // bytes_ handed out already
};

}  // namespace plimsoll
