#include "tensor/block_encode.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "tensor/half.h"

namespace plimsoll {
namespace {

// Elements that are encoded at a time: even, and whole nf4 blocks.
constexpr std::int64_t kPiece = 64 * 1024;
// What bitsandbytes divides by where a block is all zeros.
constexpr float kLeastAbsmax = 1e-38f;

// A value's code is the number of bounds below it, so a midpoint goes down and NaN is the last code.
constexpr std::array<float, 15> kNf4Bounds = [] {
  std::array<float, 15> bounds{};
  for (std::size_t i = 0; i < 15; ++i) bounds[i] = (kNf4[i] + kNf4[i + 1]) / 2;
  return bounds;
}();

// A NaN stays one.
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
    // The midpoints of 2^exponent equal bins of [0.1, 1]. The edges are those of torch.linspace, which counts the second half
    // from the end.
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

std::span<const std::byte> bytes_of(std::span<const float> values) { return std::as_bytes(values); }

}  // namespace

const std::array<float, 256>& dynamic_map() {
  static const std::array<float, 256> map = make_dynamic_map();
  return map;
}

void MemorySink::write(Bytes at, std::span<const std::byte> bytes) {
  if (!bytes.empty()) std::memcpy(stored_ + at.n, bytes.data(), bytes.size());
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
  const float most = absmax_of(row), factor = (1.0f / most) * 127.0f;  // torch divides a number so
  // A row of zeros, and one too small for its factor to be finite.
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
    // Below that, the inverse is not finite, and the scale is 0 in fp16.
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
      // bitsandbytes looks codes up in a table of 65536 places over [-1, 1], so a value counts as the nearest of these.
      const float value = std::clamp(centred[j] * inverse, -1.0f, 1.0f);
      const double place = std::trunc(static_cast<float>(static_cast<double>((value + 1.0f) * 0.5f) * 65535.0 + 0.5));
      const float rounded = static_cast<float>(place) * 2.0f / 65535.0f - 1.0f;
      const auto code = std::lower_bound(bounds.begin(), bounds.end(), rounded) - bounds.begin();
      *codes++ = most > 0 ? static_cast<std::byte>(code) : std::byte{0};
    }
  }
}

BlockEncoder::BlockEncoder(const BlockMatrix& matrix, BlockSink& sink)
    : matrix_(matrix), parts_(block_parts(matrix)), sink_(sink) {
  ensure(matrix.format == BlockFormat::int8 || matrix.format == BlockFormat::nf4 || matrix.format == BlockFormat::nf4_nested,
         "block_encode", "this format is only decoded");
  if (matrix.format == BlockFormat::nf4_nested) {
    scales_.reserve(static_cast<std::size_t>(ceil_div(matrix.rows * matrix.columns, kNf4Block)));
  }
}

Bytes BlockEncoder::held_bytes(const BlockMatrix& matrix) {
  // The codes of a piece (int8: of a row), carried elements, and scales: those of a piece, or all and what `finish` makes of
  // them.
  const Bytes codes{std::max(kPiece, matrix.columns)};
  const Bytes scales{4 * kPiece / kNf4Block};
  if (matrix.format != BlockFormat::nf4_nested) return codes + scales + Bytes{4 * kNf4Block};
  const std::int64_t blocks = ceil_div(matrix.rows * matrix.columns, kNf4Block);
  return codes + Bytes{4 * kNf4Block} + Bytes{5 * blocks + 4 * ceil_div(blocks, kNestedBlock)};
}

void BlockEncoder::append(std::span<const float> rows) {
  ensure(matrix_.columns > 0 && static_cast<std::int64_t>(rows.size()) % matrix_.columns == 0 &&
             taken_ + static_cast<std::int64_t>(rows.size()) <= matrix_.rows * matrix_.columns,
         "block_encode", "rows are whole and no more than the matrix has");
  if (matrix_.format == BlockFormat::int8) {
    append_int8(rows);
  } else {
    append_nf4(rows);
  }
  taken_ += static_cast<std::int64_t>(rows.size());
}

void BlockEncoder::append_int8(std::span<const float> rows) {
  const std::size_t columns = static_cast<std::size_t>(matrix_.columns);
  codes_.resize(columns);
  for (; !rows.empty(); rows = rows.subspan(columns)) {
    const float scale = encode_int8_row(rows.first(columns), codes_.data());
    write_codes(codes_);
    write_scales({&scale, 1}, blocks_written_);
  }
}

void BlockEncoder::append_nf4(std::span<const float> elements) {
  if (!carried_.empty()) {
    const std::size_t count = std::min(elements.size(), static_cast<std::size_t>(kNf4Block) - carried_.size());
    carried_.insert(carried_.end(), elements.begin(), elements.begin() + static_cast<std::ptrdiff_t>(count));
    elements = elements.subspan(count);
    if (carried_.size() < static_cast<std::size_t>(kNf4Block)) return;
    write_nf4(carried_);
    carried_.clear();
  }
  const std::size_t whole = elements.size() / kNf4Block * kNf4Block;
  write_nf4(elements.first(whole));
  carried_.assign(elements.begin() + static_cast<std::ptrdiff_t>(whole), elements.end());
}

void BlockEncoder::write_nf4(std::span<const float> elements) {
  const bool nested = matrix_.format == BlockFormat::nf4_nested;
  while (!elements.empty()) {
    const std::span<const float> piece = elements.first(std::min<std::size_t>(elements.size(), kPiece));
    elements = elements.subspan(piece.size());
    const std::size_t blocks = (piece.size() + kNf4Block - 1) / kNf4Block, before = nested ? scales_.size() : 0;
    codes_.resize((piece.size() + 1) / 2);
    scales_.resize(before + blocks);
    encode_nf4(piece, codes_.data(), scales_.data() + before);
    write_codes(codes_);
    if (!nested) write_scales(scales_, blocks_written_);
  }
}

void BlockEncoder::write_codes(std::span<const std::byte> codes) {
  sink_.write(Bytes{codes_written_}, codes);
  codes_written_ += static_cast<std::int64_t>(codes.size());
}

void BlockEncoder::write_scales(std::span<const float> scales, std::int64_t first) {
  sink_.write(parts_.scales + Bytes{4 * first}, bytes_of(scales));
  blocks_written_ = first + static_cast<std::int64_t>(scales.size());
}

void BlockEncoder::finish(std::optional<float> offset) {
  ensure(taken_ == matrix_.rows * matrix_.columns, "block_encode", "all rows come before the end");
  write_nf4(carried_);
  carried_.clear();
  // Each part begins at a multiple of 4 bytes; what lies between is 0.
  constexpr std::array<std::byte, 4> kZeros{};
  write_codes(std::span(kZeros).first(static_cast<std::size_t>(parts_.scales.n - codes_written_)));
  if (matrix_.format != BlockFormat::nf4_nested) return;
  const float centre = offset.value_or(nested_offset(scales_));
  std::vector<std::byte> codes(static_cast<std::size_t>((parts_.nested_scales - parts_.scales).n));
  std::vector<float> nested(static_cast<std::size_t>((parts_.map - parts_.nested_scales).n / 4));
  encode_nested(scales_, centre, codes.data(), nested.data());
  sink_.write(parts_.scales, codes);
  sink_.write(parts_.nested_scales, bytes_of(nested));
  sink_.write(parts_.map, bytes_of(dynamic_map()));
  sink_.write(parts_.offset, bytes_of({&centre, 1}));
}

}  // namespace plimsoll
