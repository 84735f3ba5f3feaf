// Checks weights for NaN and infinity: a single one would spread to all results of a model. Readers check each piece right after
// reading it. data_error E-FORMAT-NAN names the file, the tensor and the element.
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

// The index of the first element that is NaN or infinite; absent for integer types.
std::optional<std::int64_t> first_not_finite(DType dtype, std::span<const std::byte> elements);

// "[2, 7]": the place of an element, counted row by row.
std::string place_text(const Shape& shape, std::int64_t element);

Error not_finite(const std::string& file, std::string_view tensor, const std::string& what);

// Checks elements of a tensor in a file. `first`: the index of the first one.
void require_finite(const std::string& file, std::string_view tensor, const Shape& shape, std::int64_t first,
                    std::span<const float> numbers);

// Reads fp32 numbers by read(begin, bytes) and checks them, in pieces that stay in the processor's cache in between; `begin`
// counts bytes.
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
