// A piece on its way between the disk and memory, part by part: what the disk has to do next, and what comes of its answers, in
// whatever order they come. Who asks the disk is no matter here. Parts move without a copy where the disk takes memory at their
// address and they are whole blocks, the others through one staging buffer. Copies and checksums are made on the thread that
// calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
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
  static constexpr std::size_t kParts = 2;  // at once, so that the disk has the next one when it is done with one
  // Takes each part that was read, or fills each part that is to be written.
  using Pass = std::function<void(std::span<std::byte>)>;
  // Everything but `pass` outlives it. `memory`: all bytes of the piece.
  MovingPiece(const NamelessFile& file, StoredPiece& piece, bool read, std::span<std::byte> staging, Pass pass);
  MovingPiece(const NamelessFile& file, StoredPiece& piece, bool read, std::span<std::byte> staging, std::byte* memory);

  // Whole blocks that the disk reads or writes, of one part.
  struct Blocks {
    std::uint32_t part;
    std::int64_t offset;
    std::span<std::byte> memory;
  };
  // Nothing while all that can move at once is on its way, and once all is over. Throws E-DISK-CORRUPT, as `moved` does, where
  // what was read is not what had been written.
  std::optional<Blocks> next();
  // What can be done while the disk is at these blocks; else it is done later.
  void meanwhile();
  // Bytes of the blocks of that part, fewer than asked for if need be, or the negative errno. Throws E-DISK-IO.
  void moved(std::uint32_t part, std::int64_t result);

  bool over() const { return over_; }
  bool reads() const { return read_; }
  Error failure(const std::string& why) const;

 private:
  struct Part {
    Bytes at;                   // in the piece
    std::size_t bytes;          // without padding
    std::span<std::byte> room;  // with padding: in the staging or in the memory
    bool staged;
    std::size_t have = 0;  // bytes moved
    bool asked = false;    // the disk is at it
  };
  bool begin_part();
  bool moves(const Part& part) const;
  void end_parts();
  void copy(const Part& part);
  void sum(const Part& part);
  void end();

  const NamelessFile* file_;
  StoredPiece* piece_;
  bool read_;
  std::span<std::byte> staging_;
  Pass pass_;
  std::byte* memory_ = nullptr;  // null: the pass knows
  Hasher sum_;                   // however the piece is cut into parts
  Bytes begun_;                  // of the piece, in whole parts
  std::deque<Part> parts_;       // those that are not over
  std::uint32_t first_ = 0;      // the number of the first of them
  bool staging_free_ = true, over_;
  std::span<const std::byte> unsummed_;  // in the memory, where nobody changes it before the end
};

// All of it, on this thread.
void move_now(const NamelessFile& file, MovingPiece& piece);

}  // namespace plimsoll
