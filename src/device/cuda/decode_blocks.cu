#include "device/cuda/decode_blocks.h"

#include "device/cuda/decode_kernel.cuh"

namespace plimsoll::cuda {
namespace {

StoredParts parts_of(const FrozenMatrix& matrix, const std::byte* stored) {
  const auto at = [&](Bytes offset) { return reinterpret_cast<const Byte*>(stored) + offset.n; };
  if (!matrix.blocks) return {at({})};
  const BlockParts parts = block_parts(*matrix.blocks);
  return {at({}), at(parts.scales), at(parts.nested_scales), at(parts.map), at(parts.offset)};
}

// Calls f with a number of the type.
template <class F>
void with_number(DType dtype, F f) {
  switch (dtype) {
    case DType::f32: return f(0.0f);
    case DType::bf16: return f(Bf16{});
    case DType::f16: return f(F16{});
    default: throw internal_error("decode", "a matrix of no floating-point numbers");
  }
}

template <class T>
void decode_to(void* stream, const FrozenMatrix& matrix, const std::byte* stored, const DecodedRows& rows, T* out) {
  const StoredParts parts = parts_of(matrix, stored);
  if (matrix.blocks) {
    return with_decoder(matrix.blocks->format,
                        [&]<class Decoder>(Decoder) { launch_decoder<Decoder>(stream, parts, rows, out); });
  }
  with_number(matrix.dtype, [&]<class From>(From) { launch_decoder<Numbers<From>>(stream, parts, rows, out); });
}

}  // namespace

void decode(void* stream, const FrozenMatrix& matrix, const std::byte* stored, const MatrixPart& part, DType to, void* out) {
  const DecodedRows rows{nullptr, matrix.rows, part.row, part.rows, part.column, part.columns, matrix.columns};
  with_number(to, [&]<class T>(T) { decode_to(stream, matrix, stored, rows, static_cast<T*>(out)); });
}

void decode_rows(void* stream, const FrozenMatrix& matrix, const std::byte* stored, const std::int32_t* which, std::int64_t count,
                 float* out) {
  decode_to(stream, matrix, stored, {which, matrix.rows, 0, count, 0, matrix.columns, matrix.columns}, out);
}

}  // namespace plimsoll::cuda
