// The bytes of a file in pieces, none of which stays in the page cache.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/file_stamp.h"

namespace plimsoll {

inline constexpr std::int64_t kPieceBytes = 256 << 10;

// Calls visit(piece) for the bytes [begin, end). data_error E-DATA-CHANGED if the file was written to in the meantime.
template <class Visit>
void for_each_piece(const File& file, std::int64_t begin, std::int64_t end, Visit&& visit) {
  const FileStamp stamp = stamp_of(file);
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(kPieceBytes, std::max<std::int64_t>(0, end - begin))));
  for (std::int64_t at = begin; at < end; at += kPieceBytes) {
    const auto piece = std::span(buffer).first(static_cast<std::size_t>(std::min(kPieceBytes, end - at)));
    file.read_at(at, piece);
    visit(std::span<const std::byte>(piece));
    file.forget(at, kPieceBytes);
  }
  require_unchanged(file, stamp);
}

}  // namespace plimsoll
