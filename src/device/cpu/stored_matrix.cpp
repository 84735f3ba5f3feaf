#include "device/cpu/stored_matrix.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/ceil_div.h"
#include "base/error.h"
#include "device/cpu/parallel.h"
#include "tensor/half.h"

namespace plimsoll::cpu {
namespace {

constexpr std::int64_t kPiece = 1 << 10;  // elements that are rounded at a time
constexpr std::int64_t kTaskElements = 1 << 14;

template <class Widen>
void widen(const std::byte* stored, std::span<float> out, Widen widen_one) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, stored + 2 * i, sizeof bits);
    out[i] = widen_one(bits);
  }
}

}  // namespace

std::string name(const StoredMatrix& matrix) {
  return std::string(matrix.blocks ? plimsoll::name(matrix.blocks->format) : plimsoll::name(matrix.dtype));
}

namespace {

void read_exact(const StoredMatrix& matrix, const std::byte* stored, std::int64_t first, std::span<float> out) {
  if (matrix.blocks) return decode_blocks(*matrix.blocks, stored, first, out);
  const std::byte* from = stored + first * size_of(matrix.dtype);
  switch (matrix.dtype) {
    case DType::f32: std::memcpy(out.data(), from, out.size_bytes()); return;
    case DType::bf16: return widen(from, out, widen_bf16);
    case DType::f16: return widen(from, out, widen_f16);
    default: throw internal_error("matrix", "a matrix of what are no numbers");
  }
}

}  // namespace

void read_elements(const StoredMatrix& matrix, const std::byte* stored, std::int64_t first, std::span<float> out) {
  read_exact(matrix, stored, first, out);
  if (matrix.rounded == DType::f32 || matrix.rounded == matrix.dtype) return;
  const bool bf16 = matrix.rounded == DType::bf16;
  for (float& x : out) x = bf16 ? widen_bf16(narrow_bf16(x)) : widen_f16(narrow_f16(x));
}

namespace {

template <class Narrow>
void narrow(std::span<const float> from, std::uint16_t* to, Narrow narrow_one) {
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = narrow_one(from[i]);
}

// Elements of one row from `first` on.
void read_run(const StoredMatrix& matrix, const std::byte* stored, std::int64_t first, std::int64_t count, DType to,
              std::byte* out) {
  if (to == DType::f32) {
    return read_elements(matrix, stored, first, {reinterpret_cast<float*>(out), static_cast<std::size_t>(count)});
  }
  // Numbers that end in the type `rounded` are rounded only once.
  const auto read = to == matrix.rounded ? read_exact : read_elements;
  std::array<float, kPiece> wide;
  auto* bits = reinterpret_cast<std::uint16_t*>(out);
  for (std::int64_t at = 0; at < count; at += kPiece) {
    const std::span<float> piece = std::span(wide).first(static_cast<std::size_t>(std::min(kPiece, count - at)));
    read(matrix, stored, first + at, piece);
    if (to == DType::bf16) {
      narrow(piece, bits + at, [](float x) { return narrow_bf16(x); });
    } else {
      narrow(piece, bits + at, [](float x) { return narrow_f16(x); });
    }
  }
}

}  // namespace

void read_part(const StoredMatrix& matrix, const std::byte* stored, const Part& part, DType to, void* out) {
  auto* const bytes = static_cast<std::byte*>(out);
  const std::int64_t size = size_of(to);
  const std::int64_t rows = std::max<std::int64_t>(1, kTaskElements / std::max<std::int64_t>(1, part.columns));
  parallel_for(ceil_div(part.rows, rows), [&](std::int64_t task) {
    for (std::int64_t row = task * rows; row < std::min(part.rows, (task + 1) * rows); ++row) {
      read_run(matrix, stored, (part.row + row) * part.of_columns + part.column, part.columns, to,
               bytes + row * part.columns * size);
    }
  });
}

}  // namespace plimsoll::cpu
