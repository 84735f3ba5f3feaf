// A piece in transfer between the disk and memory, part by part, as a state machine: next() gives the blocks to read or write,
// and moved() takes the disk's answer. The caller accesses the disk. A part of whole blocks moves without a copy if the disk
// takes memory at its address, any other part through one staging buffer. Copies and checksums are made on the caller's thread.
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
  bool written = false;  // false: the piece reads as zeros
};

class MovingPiece {
 public:
  // Copies between the staging and memory of a device, which the disk does not reach. May wait. `read`: from staging to device.
  using Copy = std::function<void(std::byte* to, const std::byte* from, std::size_t bytes, bool read)>;
  // Takes each part that was read, or fills each part before it is written.
  using Pass = std::function<void(std::span<std::byte>)>;
  // All arguments but `pass` outlive this. `memory`: all bytes of the piece.
  MovingPiece(const NamelessFile& file, StoredPiece& piece, bool read, std::span<std::byte> staging, Pass pass);
  MovingPiece(const NamelessFile& file, StoredPiece& piece, bool read, std::span<std::byte> staging, std::byte* memory,
              const Copy* copy = nullptr);

  // Whole blocks that the disk reads or writes.
  struct Blocks {
    std::int64_t offset;
    std::span<std::byte> memory;
  };
  // The next blocks; absent after the last. The caller answers them with moved() before the next call. Throws E-DISK-CORRUPT if
  // the bytes read differ from those written.
  std::optional<Blocks> next();
  // Optional work during the disk's access to these blocks; without this call it is done later.
  void meanwhile();
  // `result`: the bytes moved, possibly fewer than the blocks, or the negative errno. Throws E-DISK-IO.
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
  std::byte* memory_ = nullptr;          // null: parts go through pass_
  const Copy* copy_ = nullptr;           // null: memory_ belongs to the host
  Hasher sum_;                           // checksum so far; it does not depend on the cut into parts
  Bytes done_;                           // bytes of the finished parts
  bool staged_ = true;                   // the current part goes through the staging
  std::span<std::byte> room_;            // room of the current part with padding, in the staging or in memory_
  std::span<const std::byte> unsummed_;  // bytes in memory_ not yet in sum_; they do not change before the end
  std::size_t part_ = 0, have_ = 0;      // bytes of the current part, and those already moved
};

// Moves a piece on the caller's thread.
void move_now(const NamelessFile& file, MovingPiece& piece);

}  // namespace plimsoll
