// The values on a tier past the one that computes: pieces at fixed offsets. They move in parallel to the kernels; a wait names
// the number of their event.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/transfer_engine.h"

namespace plimsoll {

class TierStore {
 public:
  // Offsets are multiples of kPieceAlignment, and pieces do not overlap.
  struct Piece {
    Bytes offset, bytes;
  };
  static constexpr Bytes kPieceAlignment{4096};

  virtual ~TierStore() = default;

  // Starts a transfer of the piece at `offset`; memory belongs to it until `wait` returns. A piece that was never written reads
  // as zeros.
  virtual void start_read(std::uint32_t event, Bytes offset, std::span<std::byte> to) = 0;
  virtual void start_write(std::uint32_t event, Bytes offset, std::span<const std::byte> from) = 0;
  // Until the transfer with that event is over. Throws what ended it.
  virtual void wait(std::uint32_t event) = 0;

  // The pieces within [offset, offset + bytes), in order, by the caller alone: for checkpoints.
  virtual void read(Bytes offset, Bytes bytes, const std::function<void(std::span<const std::byte>)>& sink) = 0;
  virtual void write(Bytes offset, Bytes bytes, const std::function<void(std::span<std::byte>)>& source) = 0;

  // The end of the highest piece that was written, up to the alignment, and the bytes of all pieces that were.
  virtual Bytes height() const = 0;
  virtual Bytes written() const = 0;
  // Bytes of all writes until now, in whole blocks: the wear of a disk. 0 for a tier that does not wear.
  virtual Bytes wear() const { return {}; }
  // Who moves its pieces; nothing where that is no choice.
  virtual std::optional<TransferEngine> transfers() const { return {}; }
};

// The two figures above for pieces by offset, each with `written`.
template <class Pieces>
Bytes height_of(const Pieces& pieces) {
  Bytes top;
  for (const auto& piece : pieces) {
    if (piece.written) top = std::max(top, align_up(piece.offset + piece.bytes, TierStore::kPieceAlignment));
  }
  return top;
}
template <class Pieces>
Bytes written_of(const Pieces& pieces) {
  Bytes sum;
  for (const auto& piece : pieces) {
    if (piece.written) sum += align_up(piece.bytes, TierStore::kPieceAlignment);
  }
  return sum;
}
// The piece that begins there.
template <class Pieces>
auto& piece_at(Pieces& pieces, Bytes offset) {
  const auto found = std::lower_bound(pieces.begin(), pieces.end(), offset,
                                      [](const auto& piece, Bytes wanted) { return piece.offset < wanted; });
  ensure(found != pieces.end() && found->offset == offset, "tier", "no piece begins at this offset");
  return *found;
}

}  // namespace plimsoll
