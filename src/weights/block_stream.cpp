#include "weights/block_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/ceil_div.h"
#include "base/error.h"
#include "device/cpu/parallel.h"
#include "tensor/block_encode.h"

namespace plimsoll {
namespace {

std::size_t count_of(std::int64_t n) { return static_cast<std::size_t>(n); }

}  // namespace

BlockStream::BlockStream(const BlockMatrix& matrix, ReadElements read, std::optional<float> offset)
    : matrix_(matrix), read_(std::move(read)), offset_(offset), piece_(encoded_at_once(matrix)) {
  ensure(scales_apart(matrix.format), "weights", "nothing encodes this format");
  elements_.resize(count_of(piece_));
  const std::int64_t all = matrix.rows * matrix.columns;
  scales_.resize(count_of(matrix.format == BlockFormat::int8 ? matrix.rows : ceil_div(all, kNf4Block)));
}

void BlockStream::next(std::span<std::byte> out) {
  while (!out.empty()) {
    if (given_ == bytes_.size()) {
      given_ = 0;
      taken_ < matrix_.rows* matrix_.columns ? encode_piece() : encode_scales();
    }
    const std::size_t count = std::min(out.size(), bytes_.size() - given_);
    std::memcpy(out.data(), bytes_.data() + given_, count);
    given_ += count;
    out = out.subspan(count);
  }
}

void BlockStream::encode_piece() {
  const std::int64_t count = std::min(piece_, matrix_.rows * matrix_.columns - taken_);
  const std::span<float> elements = std::span(elements_).first(count_of(count));
  read_(taken_, elements);
  if (matrix_.format == BlockFormat::int8) {
    bytes_.resize(count_of(count));
    const std::int64_t first = taken_ / matrix_.columns;
    cpu::parallel_for(count / matrix_.columns, [&](std::int64_t row) {
      const std::int64_t at = row * matrix_.columns;
      scales_[count_of(first + row)] =
          encode_int8_row(elements.subspan(count_of(at), count_of(matrix_.columns)), bytes_.data() + at);
    });
  } else {
    constexpr std::int64_t kTask = 64 * kNf4Block;
    bytes_.resize(count_of(ceil_div(count, 2)));
    cpu::parallel_for(ceil_div(count, kTask), [&](std::int64_t task) {
      const std::int64_t at = task * kTask;
      encode_nf4(elements.subspan(count_of(at), count_of(std::min(kTask, count - at))), bytes_.data() + at / 2,
                 scales_.data() + (taken_ + at) / kNf4Block);
    });
  }
  taken_ += count;
  made_ += std::ssize(bytes_);
}

// Encodes everything after the codes.
void BlockStream::encode_scales() {
  const BlockParts parts = block_parts(matrix_);
  ensure(made_ < parts.end.n, "weights", "more bytes of a matrix than it has");
  bytes_.assign(count_of(parts.end.n - made_), std::byte{0});
  const auto put = [&](Bytes at, std::span<const std::byte> bytes) {
    std::memcpy(bytes_.data() + (at.n - made_), bytes.data(), bytes.size());
  };
  if (matrix_.format != BlockFormat::nf4_nested) {
    put(parts.scales, std::as_bytes(std::span(scales_)));
  } else {
    const float offset = offset_.value_or(nested_offset(scales_));
    std::vector<float> nested(count_of(ceil_div(std::ssize(scales_), kNestedBlock)));
    encode_nested(scales_, offset, bytes_.data() + (parts.scales.n - made_), nested.data());
    put(parts.nested_scales, std::as_bytes(std::span(nested)));
    put(parts.map, std::as_bytes(std::span(dynamic_map())));
    put(parts.offset, std::as_bytes(std::span(&offset, 1)));
  }
  made_ = parts.end.n;
}

}  // namespace plimsoll
