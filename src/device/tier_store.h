// The values of a tier past the first, in pieces at fixed offsets. Transfers of pieces run next to the kernels; each has the
// number of an event, on which the caller waits.
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

  // Starts a transfer of the piece at `offset`. The caller leaves the memory alone until `wait` returns. A piece that was never
  // written reads as zeros.
  virtual void start_read(std::uint32_t event, Bytes offset, std::span<std::byte> to) = 0;
  virtual void start_write(std::uint32_t event, Bytes offset, std::span<const std::byte> from) = 0;
  // Returns when the transfer of this event is over. Throws the error of a failed transfer.
  virtual void wait(std::uint32_t event) = 0;

  // Passes the pieces within [offset, offset + bytes) in order, on the caller's thread; for checkpoints.
  virtual void read(Bytes offset, Bytes bytes, const std::function<void(std::span<const std::byte>)>& sink) = 0;
  virtual void write(Bytes offset, Bytes bytes, const std::function<void(std::span<std::byte>)>& source) = 0;

  // The aligned end of the highest written piece, and the sum of the aligned bytes of all written pieces.
  virtual Bytes height() const = 0;
  virtual Bytes written() const = 0;
  // Bytes of all writes until now, in whole blocks: the wear of a disk. 0 for a tier that does not wear.
  virtual Bytes wear() const { return {}; }
  // The engine that moves pieces; absent if a tier has only one.
  virtual std::optional<TransferEngine> transfers() const { return {}; }
};

// height() and written() of a list of pieces, each with a flag `written`.
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
// The piece that begins at `offset`; `pieces` are sorted by offset.
template <class Pieces>
auto& piece_at(Pieces& pieces, Bytes offset) {
  const auto found = std::lower_bound(pieces.begin(), pieces.end(), offset,
                                      [](const auto& piece, Bytes wanted) { return piece.offset < wanted; });
  ensure(found != pieces.end() && found->offset == offset, "tier", "no piece begins at this offset");
  return *found;
}

}  // namespace plimsoll
