// A piece on its way between the disk and memory, part by part: what the disk has to do next, and what comes of its answer. Who
// asks the disk is no matter here. Parts move without a copy where the disk takes memory at their address and they are whole
// blocks, the others through one staging buffer. Copies and checksums are made on the thread that calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "device/disk/nameless_file.h"

namespace plimsoll {

struct StoredPiece {
  Bytes offset, bytes;
  std::uint64_t checksum = 0;
  bool written = false;  // never: it reads as zeros
};

class MovingPiece {
 public:
  // Between the staging and memory that is not the host's, which the disk does not reach. May wait for it; `read`: to there.
  using Copy = std::function<void(std::byte* to, const std::byte* from, std::size_t bytes, bool read)>;
  // Takes each part that was read, or fills each part that is to be written.
  using Pass = std::function<void(std::span<std::byte>)>;
  // Everything but `pass` outlives it. `memory`: all bytes of the piece.
  MovingPiece(const NamelessFile& file, StoredPiece& piece, bool read, std::span<std::byte> staging, Pass pass);
  MovingPiece(const NamelessFile& file, StoredPiece& piece, bool read, std::span<std::byte> staging, std::byte* memory,
              const Copy* copy = nullptr);

  // Whole blocks that the disk reads or writes.
  struct Blocks {
    std::int64_t offset;
    std::span<std::byte> memory;
  };
  // Nothing once all is done; whoever gets blocks answers with `moved` before asking again. Throws E-DISK-CORRUPT where what was
  // read is not what had been written.
  std::optional<Blocks> next();
  // Work that fits beside the disk's access to these blocks; else it is done later.
  void meanwhile();
  // Bytes, fewer than asked for if need be, or the negative errno. Throws E-DISK-IO.
  void moved(std::int64_t result);

  bool reads() const { return read_; }
  Error failure(const std::string& why) const;

 private:
  void begin_part();
  void end_part();
  void copy_part();
  void sum_part();
  void end();

  const NamelessFile* file_;
  StoredPiece* piece_;
  bool read_;
  std::span<std::byte> staging_;
  Pass pass_;
  std::byte* memory_ = nullptr;          // null: the pass knows
  const Copy* copy_ = nullptr;           // null: that of the host
  Hasher sum_;                           // however the piece is cut into parts
  Bytes done_;                           // of the piece, in whole parts
  bool staged_ = true;                   // the current part
  std::span<std::byte> room_;            // of the current part, with padding: in the staging or in the memory
  std::span<const std::byte> unsummed_;  // in the memory, where nobody changes it before the end
  std::size_t part_ = 0, have_ = 0;      // of the current part: its bytes, those moved
};

// All of it, on this thread.
void move_now(const NamelessFile& file, MovingPiece& piece);

}  // namespace plimsoll
