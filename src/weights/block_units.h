// A matrix in blocks, piece by piece: its scales are held, its codes pass by. A unit is what shares a scale: a block, or a row of
// int8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tensor/block_format.h"

namespace plimsoll {

class BlockUnits {
 public:
  // `behind`: the stored bytes behind the codes; empty for a GGUF format.
  BlockUnits(const BlockMatrix& matrix, std::span<const std::byte> behind);
  BlockUnits() = default;

  // Bytes of the codes of a matrix, with which it begins.
  static std::int64_t code_bytes(const BlockMatrix& matrix);
  // Of the codes of a unit; its elements. The last one may have fewer.
  std::int64_t bytes() const { return bytes_; }
  std::int64_t elements() const { return elements_; }
  // Of whole units from `first` on, or all that are left. `out` has their elements.
  void decode(std::int64_t first, std::span<const std::byte> codes, std::span<float> out) const;

 private:
  BlockMatrix matrix_;
  std::int64_t bytes_ = 0, elements_ = 0;
  std::vector<float> scales_;  // of each unit
};

}  // namespace plimsoll
