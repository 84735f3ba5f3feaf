// fp32 rows to int8, nf4 and nf4_nested, to the bits that bitsandbytes computes on a processor. Rows come in order and in any
// cut; the fp32 matrix is never held. nf4_nested needs all scales before it can nest them: its encoder keeps four bytes for each
// 64 elements until `finish`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "tensor/block_format.h"

namespace plimsoll {

// Takes the bytes of a stored matrix, in pieces of any order that do not overlap.
class BlockSink {
 public:
  virtual ~BlockSink() = default;
  virtual void write(Bytes at, std::span<const std::byte> bytes) = 0;
};

// Into stored_bytes(matrix) bytes that somebody else owns.
class MemorySink final : public BlockSink {
 public:
  explicit MemorySink(std::byte* stored) : stored_(stored) {}
  void write(Bytes at, std::span<const std::byte> bytes) override;

 private:
  std::byte* stored_;
};

class BlockEncoder {
 public:
  // The format is int8, nf4 or nf4_nested. `sink` outlives the encoder.
  BlockEncoder(const BlockMatrix& matrix, BlockSink& sink);

  // What an encoder holds at most, beside the rows of one call.
  static Bytes held_bytes(const BlockMatrix& matrix);

  // The next rows, all elements of each.
  void append(std::span<const float> rows);
  // After the last row. `offset` is that of nf4_nested; without one it is the mean of the scales.
  void finish(std::optional<float> offset = std::nullopt);

 private:
  void append_int8(std::span<const float> rows);
  void append_nf4(std::span<const float> elements);
  void write_nf4(std::span<const float> elements);
  void write_scales(std::span<const float> scales, std::int64_t first);
  void write_codes(std::span<const std::byte> codes);

  BlockMatrix matrix_;
  BlockParts parts_;
  BlockSink& sink_;
  std::int64_t taken_ = 0, codes_written_ = 0, blocks_written_ = 0;
  std::vector<std::byte> codes_;  // of one piece
  std::vector<float> scales_;     // of one piece; nf4_nested: all of them
  std::vector<float> carried_;    // elements of a block that the next rows complete
};

// Codes and absmax of consecutive nf4 blocks; only the last may be partial. An odd number of elements ends in a byte whose low
// half encodes 0.
void encode_nf4(std::span<const float> elements, std::byte* codes, float* absmax);
// Codes of one row; returns its scale, the absmax.
float encode_int8_row(std::span<const float> row, std::byte* codes);

// Whole q8_0 blocks, to the bits of ggml's reference. What is not finite, or passes what the scale's fp16 can hold, comes out as
// a block whose scale is not finite.
void encode_q8_0(std::span<const float> elements, std::byte* blocks);

// The second quantisation of nf4_nested: one code for each scale, and one fp32 scale for each 256 of them.
float nested_offset(std::span<const float> absmax);
void encode_nested(std::span<const float> absmax, float offset, std::byte* codes, float* nested_absmax);
// bitsandbytes' signed dynamic map.
const std::array<float, 256>& dynamic_map();

}  // namespace plimsoll
