#include "weights/block_units.h"

#include <cstring>

#include "base/ceil_div.h"

namespace plimsoll {
namespace {

bool is_nf4(BlockFormat format) { return format == BlockFormat::nf4 || format == BlockFormat::nf4_nested; }

std::size_t count_of(std::int64_t n) { return static_cast<std::size_t>(n); }

}  // namespace

std::int64_t BlockUnits::code_bytes(const BlockMatrix& matrix) {
  const std::int64_t elements = matrix.rows * matrix.columns;
  if (is_nf4(matrix.format)) return ceil_div(elements, 2);
  return matrix.format == BlockFormat::int8 ? elements : stored_bytes(matrix).n;
}

BlockUnits::BlockUnits(const BlockMatrix& matrix, std::span<const std::byte> behind) : matrix_(matrix) {
  elements_ = is_nf4(matrix.format)                ? kNf4Block
              : matrix.format == BlockFormat::int8 ? matrix.columns
                                                   : block_elements(matrix.format);
  bytes_ = code_bytes({matrix.format, 1, elements_});
  if (matrix.format != BlockFormat::int8 && !is_nf4(matrix.format)) return;
  const BlockParts parts = block_parts(matrix);
  const std::byte* const from = behind.data() - code_bytes(matrix);
  scales_.resize(count_of(ceil_div(matrix.rows * matrix.columns, elements_)));
  if (matrix.format != BlockFormat::nf4_nested) {
    std::memcpy(scales_.data(), from + parts.scales.n, 4 * scales_.size());
    return;
  }
  const auto number = [&](Bytes at, std::size_t i) {
    float value = 0;
    std::memcpy(&value, from + at.n + 4 * i, sizeof value);
    return value;
  };
  for (std::size_t i = 0; i < scales_.size(); ++i) {
    const auto code = static_cast<std::size_t>(from[parts.scales.n + static_cast<std::int64_t>(i)]);
    scales_[i] = number(parts.map, code) * number(parts.nested_scales, i / kNestedBlock) + number(parts.offset, 0);
  }
}

void BlockUnits::decode(std::int64_t first, std::span<const std::byte> codes, std::span<float> out) const {
  if (scales_.empty()) return decode_blocks({matrix_.format, 1, std::ssize(out)}, codes.data(), 0, out);
  const std::int64_t units = ceil_div(std::ssize(out), elements_);
  const BlockMatrix part = is_nf4(matrix_.format) ? BlockMatrix{BlockFormat::nf4, 1, std::ssize(out)}
                                                  : BlockMatrix{BlockFormat::int8, units, elements_};
  std::vector<std::byte> stored(count_of(stored_bytes(part).n));
  std::memcpy(stored.data(), codes.data(), codes.size());
  std::memcpy(stored.data() + block_parts(part).scales.n, scales_.data() + first, 4 * count_of(units));
  decode_blocks(part, stored.data(), 0, out);
}

}  // namespace plimsoll
