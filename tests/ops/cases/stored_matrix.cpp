#include "ops/cases/stored_matrix.h"

#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "base/philox.h"
#include "tensor/encoded.h"

namespace plimsoll::test {
namespace {

// A block of a GGUF format: its size in bytes, and the offsets of its fp16 scales.
struct Layout {
  std::size_t bytes;
  std::vector<std::size_t> scales;
};

Layout layout_of(BlockFormat format) {
  switch (format) {
    case BlockFormat::q4_0: return {18, {0}};
    case BlockFormat::q4_1: return {20, {0, 2}};
    case BlockFormat::q5_0: return {22, {0}};
    case BlockFormat::q5_1: return {24, {0, 2}};
    case BlockFormat::q8_0: return {34, {0}};
    case BlockFormat::q4_k: return {144, {0, 2}};
    case BlockFormat::q5_k: return {176, {0, 2}};
    case BlockFormat::q6_k: return {210, {208}};
    default: return {};
  }
}

// Scales are at least 0.0039 and less than twice that.
std::vector<std::byte> random_blocks(const BlockMatrix& matrix) {
  std::vector<std::byte> bytes(extent(stored_bytes(matrix).n));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(mix64(i + 7) >> 13);
  const Layout layout = layout_of(matrix.format);
  for (std::size_t block = 0; block < bytes.size(); block += layout.bytes) {
    for (const std::size_t scale : layout.scales) bytes[block + scale + 1] = std::byte{0x1C};
  }
  return bytes;
}

// The scales of blocks differ, so that one rounding less while they are decoded changes bits.
std::vector<std::byte> encoded_numbers(const BlockMatrix& matrix) {
  std::vector<float> elements(extent(matrix.rows * matrix.columns));
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const double of_block = 0.1 + 0.9 * std::fmod(0.618 * static_cast<double>(i / extent(kNf4Block)), 1.0);
    elements[i] = static_cast<float>(of_block * std::sin(0.7 * static_cast<double>(i * i)));
  }
  return encoded(matrix, elements);
}

}  // namespace

CaseInput in_blocks(const BlockMatrix& matrix) { return {{DType::u8, Shape{stored_bytes(matrix).n}}, {0, 256}, false}; }

std::vector<std::byte> stored_blocks(const BlockMatrix& matrix) {
  return scales_apart(matrix.format) ? encoded_numbers(matrix) : random_blocks(matrix);
}

void fill_blocks(const BlockMatrix& matrix, Numbers& bytes) {
  const std::vector<std::byte> stored = stored_blocks(matrix);
  bytes.assign(stored.size(), 0);
  for (std::size_t i = 0; i < stored.size(); ++i) bytes[i] = static_cast<double>(stored[i]);
}

Numbers elements_of(const BlockMatrix& matrix, const Numbers& bytes) {
  std::vector<std::byte> stored(bytes.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) stored[i] = static_cast<std::byte>(bytes[i]);
  std::vector<float> elements(extent(matrix.rows * matrix.columns));
  decode_blocks(matrix, stored.data(), 0, elements);
  return {elements.begin(), elements.end()};
}

Numbers elements_of(const std::optional<BlockMatrix>& blocks, const Numbers& input) {
  return blocks ? elements_of(*blocks, input) : input;
}

OpCase with_blocks(BlockFormat format, std::size_t i, OpCase a_case) {
  const Shape shape = a_case.inputs[i].type.shape;
  const BlockMatrix matrix{format, shape[0], shape[1]};
  a_case.inputs[i] = in_blocks(matrix);
  a_case.derive = [matrix, i, derive = std::move(a_case.derive)](std::vector<Numbers>& values) {
    fill_blocks(matrix, values[i]);
    if (derive) derive(values);
  };
  return a_case;
}

}  // namespace plimsoll::test
