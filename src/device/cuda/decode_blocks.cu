#include "device/cuda/decode_blocks.h"

#include "device/cuda/decode_kernel.cuh"
#include "device/cuda/dtypes.cuh"

namespace plimsoll::cuda {
namespace {

// The address of a matrix that is stored from an offset on.
const Byte* begin_of(const std::byte* stored, Bytes offset) {
  return reinterpret_cast<const Byte*>(reinterpret_cast<std::uintptr_t>(stored) - static_cast<std::uintptr_t>(offset.n));
}

StoredParts parts_of(const BlockMatrix& matrix, const BlockPieces& pieces) {
  const BlockParts parts = block_parts(matrix);
  const Byte* behind = begin_of(pieces.behind, code_bytes(matrix));
  return {begin_of(pieces.codes, code_bytes({matrix.format, 1, pieces.first})), behind + parts.scales.n,
          behind + parts.nested_scales.n, behind + parts.map.n, behind + parts.offset.n};
}

StoredParts parts_of(const FrozenMatrix& matrix, const std::byte* stored) {
  if (matrix.blocks) return parts_of(*matrix.blocks, {stored, 0, stored + code_bytes(*matrix.blocks).n});
  return {reinterpret_cast<const Byte*>(stored)};
}

template <class T>
void decode_to(void* stream, const FrozenMatrix& matrix, const StoredParts& parts, const DecodedRows& rows, T* out) {
  if (matrix.blocks) {
    return with_decoder(matrix.blocks->format,
                        [&]<class Decoder>(Decoder) { launch_decoder<Decoder>(stream, parts, rows, out); });
  }
  with_type(matrix.dtype, [&]<class From>(From) { launch_decoder<Numbers<From>>(stream, parts, rows, out); });
}

void decode_part(void* stream, const FrozenMatrix& matrix, const StoredParts& parts, const MatrixPart& part, DType to,
                 void* out) {
  const DecodedRows rows{nullptr, matrix.rows, part.row, part.rows, part.column, part.columns, matrix.columns};
  with_type(to, [&]<class T>(T) { decode_to(stream, matrix, parts, rows, static_cast<T*>(out)); });
}

}  // namespace

void decode(void* stream, const FrozenMatrix& matrix, const std::byte* stored, const MatrixPart& part, DType to, void* out) {
  decode_part(stream, matrix, parts_of(matrix, stored), part, to, out);
}

void decode(void* stream, const FrozenMatrix& matrix, const BlockPieces& pieces, const MatrixPart& part, DType to, void* out) {
  decode_part(stream, matrix, parts_of(*matrix.blocks, pieces), part, to, out);
}

void decode_rows(void* stream, const FrozenMatrix& matrix, const std::byte* stored, const std::int32_t* which, std::int64_t count,
                 float* out) {
  const DecodedRows rows{which, matrix.rows, 0, count, 0, matrix.columns, matrix.columns};
  decode_to(stream, matrix, parts_of(matrix, stored), rows, out);
}

}  // namespace plimsoll::cuda
