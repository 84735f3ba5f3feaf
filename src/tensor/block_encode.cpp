#include "tensor/block_encode.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/ceil_div.h"
#include "tensor/half.h"

namespace plimsoll {
namespace {

// The divisor of bitsandbytes for blocks of zeros.
constexpr float kLeastAbsmax = 1e-38f;

// The code of a value is the number of bounds below it: a midpoint goes down, NaN is the last code.
constexpr std::array<float, 15> kNf4Bounds = [] {
  std::array<float, 15> bounds{};
  for (std::size_t i = 0; i < 15; ++i) bounds[i] = (kNf4[i] + kNf4[i + 1]) / 2;
  return bounds;
}();

// NaN stays NaN.
float absmax_of(std::span<const float> values) {
  float most = 0;
  for (const float value : values) {
    const float size = std::abs(value);
    if (!(size <= most)) most = size;
    if (std::isnan(most)) return most;
  }
  return most;
}

float at_least(float value, float least) { return value < least ? least : value; }

std::array<float, 256> make_dynamic_map() {
  std::array<float, 256> map{};
  std::size_t count = 0;
  for (int exponent = 0; exponent < 7; ++exponent) {
    // The midpoints of 2^exponent equal bins of [0.1, 1]. The edges follow torch.linspace, which counts the second half from the
    // end.
    const int bins = 1 << exponent;
    const float step = (1.0f - 0.1f) / static_cast<float>(bins);
    const auto edge = [&](int i) {
      if (i < (bins + 1) / 2) return static_cast<float>(static_cast<double>(0.1f) + static_cast<double>(step) * i);
      return static_cast<float>(1.0 - static_cast<double>(step) * (bins - i));
    };
    constexpr std::array kPowers{1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1.0f};
    for (int i = 0; i < bins; ++i) {
      const float value = kPowers[static_cast<std::size_t>(exponent)] * ((edge(i) + edge(i + 1)) / 2.0f);
      map[count++] = value;
      map[count++] = -value;
    }
  }
  map[count++] = 0.0f;
  map[count++] = 1.0f;
  std::sort(map.begin(), map.end());
  return map;
}

}  // namespace

const std::array<float, 256>& dynamic_map() {
  static const std::array<float, 256> map = make_dynamic_map();
  return map;
}

std::int64_t encoded_at_once(const BlockMatrix& matrix) {
  constexpr std::int64_t kPiece = 1 << 16, kRowGroup = 4;
  const std::int64_t rows = matrix.format == BlockFormat::int8 ? round_up(ceil_div(kPiece, matrix.columns), kRowGroup) : 0;
  return std::min(rows > 0 ? rows * matrix.columns : kPiece, matrix.rows * matrix.columns);
}

Bytes encoding_bytes(const BlockMatrix& matrix) {
  const bool bytes = matrix.format == BlockFormat::int8;
  const std::int64_t elements = matrix.rows * matrix.columns, piece = encoded_at_once(matrix);
  const std::int64_t scales = bytes ? matrix.rows : ceil_div(elements, kNf4Block);
  const std::int64_t nested = matrix.format == BlockFormat::nf4_nested ? ceil_div(scales, kNestedBlock) : 0;
  const std::int64_t codes = bytes ? piece : ceil_div(piece, 2),
                     behind = (block_parts(matrix).end - block_parts(matrix).scales).n;
  return Bytes{4 * (piece + scales + nested) + std::max(codes, behind)};
}

void encode_nf4(std::span<const float> elements, std::byte* codes, float* absmax) {
  std::array<float, kNf4Block> scaled{};
  std::array<std::int32_t, kNf4Block> code{};
  while (!elements.empty()) {
    const std::size_t count = std::min<std::size_t>(elements.size(), kNf4Block);
    const std::span<const float> block = elements.first(count);
    elements = elements.subspan(count);
    const float most = absmax_of(block), divisor = at_least(most, kLeastAbsmax);
    scaled.fill(0);
    if (count == kNf4Block) {
      const float inverse = 1.0f / divisor;
      for (std::size_t j = 0; j < kNf4Block; ++j) scaled[j] = block[j] * inverse;
      *absmax++ = most;
    } else {
      for (std::size_t j = 0; j < count; ++j) scaled[j] = block[j] / divisor;
      *absmax++ = divisor;
    }
    code.fill(0);
    for (const float bound : kNf4Bounds) {
      for (std::size_t j = 0; j < kNf4Block; ++j) code[j] += scaled[j] <= bound ? 0 : 1;
    }
    for (std::size_t j = 0; j < count; j += 2) *codes++ = static_cast<std::byte>(code[j] << 4 | code[j + 1]);
  }
}

float encode_int8_row(std::span<const float> row, std::byte* codes) {
  const float most = absmax_of(row), factor = (1.0f / most) * 127.0f;  // the order of operations in torch
  // Zero rows, and rows too small for a finite factor.
  if (!std::isfinite(factor)) {
    std::fill_n(codes, row.size(), std::byte{0});
    return most;
  }
  for (std::size_t j = 0; j < row.size(); ++j) {
    codes[j] = static_cast<std::byte>(static_cast<std::int32_t>(std::nearbyint(row[j] * factor)));
  }
  return most;
}

void encode_q8_0(std::span<const float> elements, std::byte* blocks) {
  constexpr std::size_t kBlock = 32;
  for (std::size_t first = 0; first < elements.size(); first += kBlock) {
    const std::span<const float> block = elements.subspan(first, kBlock);
    const float scale = absmax_of(block) / 127;
    const std::uint16_t bits = narrow_f16(scale);
    std::memcpy(blocks, &bits, sizeof(bits));
    blocks += sizeof(bits);
    // Below 2^-126 the inverse is not finite, and the scale is 0 in fp16.
    const float inverse = std::isfinite(scale) && scale >= 0x1p-126f ? 1 / scale : 0.0f;
    for (const float value : block) {
      const float code = inverse == 0 ? 0.0f : std::round(value * inverse);
      *blocks++ = static_cast<std::byte>(static_cast<std::int8_t>(code));
    }
  }
}

float nested_offset(std::span<const float> absmax) {
  double sum = 0;
  for (const float value : absmax) sum += value;
  return absmax.empty() ? 0.0f : static_cast<float>(sum / static_cast<double>(absmax.size()));
}

void encode_nested(std::span<const float> absmax, float offset, std::byte* codes, float* nested_absmax) {
  const std::array<float, 256>& map = dynamic_map();
  std::array<float, 255> bounds{};
  for (std::size_t i = 0; i < 255; ++i) bounds[i] = (map[i] + map[i + 1]) * 0.5f;
  std::array<float, kNestedBlock> centred{};
  while (!absmax.empty()) {
    const std::size_t count = std::min<std::size_t>(absmax.size(), kNestedBlock);
    for (std::size_t j = 0; j < count; ++j) centred[j] = absmax[j] - offset;
    absmax = absmax.subspan(count);
    const float most = absmax_of(std::span(centred).first(count)), inverse = 1.0f / most;
    *nested_absmax++ = most;
    for (std::size_t j = 0; j < count; ++j) {
      // bitsandbytes looks codes up in a table of 65536 places over [-1, 1], so values round to the nearest place.
      const float value = std::clamp(centred[j] * inverse, -1.0f, 1.0f);
      const double place = std::trunc(static_cast<float>(static_cast<double>((value + 1.0f) * 0.5f) * 65535.0 + 0.5));
      const float rounded = static_cast<float>(place) * 2.0f / 65535.0f - 1.0f;
      const auto code = std::lower_bound(bounds.begin(), bounds.end(), rounded) - bounds.begin();
      *codes++ = most > 0 ? static_cast<std::byte>(code) : std::byte{0};
    }
  }
}

}  // namespace plimsoll
