// fp32 numbers to int8, nf4 and nf4_nested, to the bits that bitsandbytes computes on a processor, and to q8_0. For a whole
// matrix: weights/block_stream.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "tensor/block_format.h"

namespace plimsoll {

// Of formats whose scales lie behind the codes: how many elements loading encodes at a time, a multiple of 4, and the bytes that
// it holds meanwhile, with all scales of the matrix.
std::int64_t encoded_at_once(const BlockMatrix& matrix);
Bytes encoding_bytes(const BlockMatrix& matrix);

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
