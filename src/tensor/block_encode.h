// Encodes fp32 numbers to int8, nf4 and nf4_nested with the bits of bitsandbytes on a processor, and to q8_0. For whole matrices:
// weights/block_stream.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "tensor/block_format.h"

namespace plimsoll {

// For formats with scales after the codes. The number of elements that loading encodes at a time: a multiple of 4, or all.
std::int64_t encoded_at_once(const BlockMatrix& matrix);
// The memory of that, with all scales of the matrix.
Bytes encoding_bytes(const BlockMatrix& matrix);

// Encodes consecutive nf4 blocks; only the last may be partial. An odd number of elements ends in a byte whose low half encodes
// 0.
void encode_nf4(std::span<const float> elements, std::byte* codes, float* absmax);
// Encodes one row; returns its scale, the absmax.
float encode_int8_row(std::span<const float> row, std::byte* codes);

// Encodes whole q8_0 blocks with the bits of ggml's reference. Numbers that are not finite, or exceed the scale's fp16, yield a
// block with a non-finite scale.
void encode_q8_0(std::span<const float> elements, std::byte* blocks);

// The second quantisation of nf4_nested: one code for each scale, one fp32 scale for 256 codes.
float nested_offset(std::span<const float> absmax);
void encode_nested(std::span<const float> absmax, float offset, std::byte* codes, float* nested_absmax);
// bitsandbytes' signed dynamic map.
const std::array<float, 256>& dynamic_map();

}  // namespace plimsoll
