// Weights are numbers: one that is NaN or infinite makes all that a model computes so. Readers look at what they have just read,
// some pieces at a time. data_error E-FORMAT-NAN names the file, the tensor and the element.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace plimsoll {

// The number of the first element that is NaN or infinite. Types of whole numbers have none.
std::optional<std::int64_t> first_not_finite(DType dtype, std::span<const std::byte> elements);

// "[2, 7]": the place of an element, counted row by row.
std::string place_text(const Shape& shape, std::int64_t element);

Error not_finite(const std::string& file, std::string_view tensor, const std::string& what);

// Elements of a tensor in a file, from `first` on.
void require_finite(const std::string& file, std::string_view tensor, const Shape& shape, std::int64_t first,
                    std::span<const float> numbers);

// Reads fp32 numbers by read(begin, bytes) in pieces that stay in the cache until they have been looked at; `begin` counts bytes.
template <class Read>
void read_finite(const std::string& file, std::string_view tensor, const Shape& shape, std::int64_t first, std::span<float> out,
                 Read read) {
  constexpr std::size_t kPiece = std::size_t{1} << 16;  // elements
  for (std::size_t done = 0; done < out.size();) {
    const std::span<float> piece = out.subspan(done, std::min(kPiece, out.size() - done));
    const std::int64_t at = first + static_cast<std::int64_t>(done);
    read(at * std::int64_t{sizeof(float)}, std::as_writable_bytes(piece));
    require_finite(file, tensor, shape, at, piece);
    done += piece.size();
  }
}

}  // namespace plimsoll
