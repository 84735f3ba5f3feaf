#include "device/disk/moving_piece.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/ceil_div.h"

namespace plimsoll {
namespace {

constexpr auto kBlock = static_cast<std::size_t>(kDiskBlock.n);
// Of what stays in the memory: smaller ones keep a virtual disk from its rate, larger ones leave a long sum for the end.
constexpr std::size_t kLargestPart = 1 << 20;

}  // namespace

MovingPiece::MovingPiece(const NamelessFile& file, StoredPiece& piece, bool read, std::span<std::byte> staging, Pass pass)
    : file_(&file), piece_(&piece), read_(read), staging_(staging), pass_(std::move(pass)), over_(piece.bytes.n == 0) {}

MovingPiece::MovingPiece(const NamelessFile& file, StoredPiece& piece, bool read, std::span<std::byte> staging, std::byte* memory)
    : file_(&file), piece_(&piece), read_(read), staging_(staging), memory_(memory), over_(piece.bytes.n == 0) {}

Error MovingPiece::failure(const std::string& why) const {
  return file_->failure(fmt::format("{} {} at byte {} of the page file failed: {}", read_ ? "reading" : "writing",
                                    to_text(piece_->bytes), piece_->offset.n, why));
}

// False where none is left or the next one has to wait for another to end.
bool MovingPiece::begin_part() {
  const auto left = static_cast<std::size_t>((piece_->bytes - begun_).n);
  if (left == 0 || parts_.size() == kParts) return false;
  // What the staging holds goes there rather than in two parts, one after the other.
  const std::size_t whole = left % kBlock != 0 && left <= staging_.size() ? 0 : std::min(left, kLargestPart) / kBlock * kBlock;
  std::byte* const there = memory_ == nullptr ? nullptr : memory_ + begun_.n;
  Part part{.at = begun_, .bytes = whole, .room = {there, whole}, .staged = false};
  if (whole == 0 || there == nullptr || !file_->takes(there)) {
    if (!std::exchange(staging_free_, false)) return false;
    part.staged = true;
    part.bytes = std::min(left, staging_.size());
    part.room = staging_.first(static_cast<std::size_t>(round_up(static_cast<std::int64_t>(part.bytes), kDiskBlock.n)));
  }
  if (!read_) {
    copy(part);
    sum(part);
    std::memset(part.room.data() + part.bytes, 0, part.room.size() - part.bytes);
  } else if (!piece_->written) {
    std::memset(part.room.data(), 0, part.room.size());
  }
  begun_ += Bytes{static_cast<std::int64_t>(part.bytes)};
  parts_.push_back(part);
  return true;
}

bool MovingPiece::moves(const Part& part) const {
  return read_ ? piece_->written && part.have < part.bytes : part.have < part.room.size();
}

// In their order, as the checksum wants them.
void MovingPiece::end_parts() {
  while (!parts_.empty() && !moves(parts_.front())) {
    const Part& part = parts_.front();
    if (read_) {
      if (piece_->written) sum(part);
      copy(part);
    }
    staging_free_ = staging_free_ || part.staged;
    parts_.pop_front();
    ++first_;
  }
  if (parts_.empty() && begun_ == piece_->bytes && !std::exchange(over_, true)) end();
}

// That of a part that stays in the memory can wait, that of the staging cannot.
void MovingPiece::sum(const Part& part) {
  meanwhile();
  unsummed_ = part.room.first(part.bytes);
  if (part.staged) meanwhile();
}

void MovingPiece::meanwhile() {
  sum_.add(unsummed_);
  unsummed_ = {};
}

void MovingPiece::copy(const Part& part) {
  if (!part.staged) return;
  if (memory_ == nullptr) return pass_(part.room.first(part.bytes));
  std::byte* const there = memory_ + part.at.n;
  std::memcpy(read_ ? there : part.room.data(), read_ ? part.room.data() : there, part.bytes);
}

void MovingPiece::end() {
  meanwhile();
  if (!read_) {
    piece_->checksum = sum_.low64();
    piece_->written = true;
  } else if (piece_->written && sum_.low64() != piece_->checksum) {
    throw file_->corruption(
        fmt::format("{} at byte {} of the page file are not what was written there", to_text(piece_->bytes), piece_->offset.n));
  }
}

std::optional<MovingPiece::Blocks> MovingPiece::next() {
  do {
    end_parts();  // what nobody has written needs no disk
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      Part& part = parts_[i];
      if (part.asked || !moves(part)) continue;
      part.asked = true;
      return Blocks{first_ + static_cast<std::uint32_t>(i), (piece_->offset + part.at).n + static_cast<std::int64_t>(part.have),
                    part.room.subspan(part.have)};
    }
  } while (begin_part());
  return {};
}

void MovingPiece::moved(std::uint32_t part, std::int64_t result) {
  Part& moved = parts_.at(part - first_);
  moved.asked = false;
  if (result == -EINTR || result == -EAGAIN) return;
  if (result < 0) throw failure(std::strerror(static_cast<int>(-result)));
  if (result == 0) throw failure(read_ ? "the file has become shorter" : "nothing was written");
  moved.have += static_cast<std::size_t>(result);
  end_parts();
}

void move_now(const NamelessFile& file, MovingPiece& piece) {
  while (const std::optional<MovingPiece::Blocks> blocks = piece.next()) {
    piece.meanwhile();  // as long as the part before is in the caches
    const auto [part, offset, memory] = *blocks;
    const ssize_t result = piece.reads() ? ::pread(file.fd(), memory.data(), memory.size(), offset)
                                         : ::pwrite(file.fd(), memory.data(), memory.size(), offset);
    piece.moved(part, result < 0 ? -errno : result);
  }
}

}  // namespace plimsoll
