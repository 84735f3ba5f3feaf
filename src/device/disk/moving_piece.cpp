#include "device/disk/moving_piece.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/ceil_div.h"

namespace plimsoll {
namespace {

constexpr auto kBlock = static_cast<std::size_t>(kDiskBlock.n);
// The largest part of a piece in memory: with smaller parts a virtual disk does not reach its rate, larger ones leave a long
// checksum for the end.
constexpr std::size_t kLargestPart = 1 << 20;

}  // namespace

MovingPiece::MovingPiece(const NamelessFile& file, StoredPiece& piece, bool read, std::span<std::byte> staging, Pass pass)
    : file_(&file), piece_(&piece), read_(read), staging_(staging), pass_(std::move(pass)) {}

MovingPiece::MovingPiece(const NamelessFile& file, StoredPiece& piece, bool read, std::span<std::byte> staging, std::byte* memory,
                         const Copy* copy)
    : file_(&file), piece_(&piece), read_(read), staging_(staging), memory_(memory), copy_(copy) {}

Error MovingPiece::failure(const std::string& why) const {
  return file_->failure(fmt::format("{} {} at byte {} of the page file failed: {}", read_ ? "reading" : "writing",
                                    to_text(piece_->bytes), piece_->offset.n, why));
}

void MovingPiece::begin_part() {
  const auto left = static_cast<std::size_t>((piece_->bytes - done_).n);
  // A partial block with all that precedes it moves as one part if the staging has room for it.
  const std::size_t whole = left % kBlock != 0 && left <= staging_.size() ? 0 : std::min(left, kLargestPart) / kBlock * kBlock;
  std::byte* const there = memory_ == nullptr ? nullptr : memory_ + done_.n;
  have_ = 0;
  staged_ = whole == 0 || there == nullptr || copy_ != nullptr || !file_->takes(there);
  if (!staged_) {
    part_ = whole;
    room_ = {there, whole};
  } else {
    part_ = std::min(left, staging_.size());
    room_ = staging_.first(static_cast<std::size_t>(round_up(static_cast<std::int64_t>(part_), kDiskBlock.n)));
  }
  if (read_) {
    if (!piece_->written) std::memset(room_.data(), 0, room_.size());
    return;
  }
  copy_part();
  sum_part();
  std::memset(room_.data() + part_, 0, room_.size() - part_);
}

// The checksum of a part in memory can wait; the staging is overwritten by the next part.
void MovingPiece::sum_part() {
  meanwhile();
  unsummed_ = room_.first(part_);
  if (staged_) meanwhile();
}

void MovingPiece::meanwhile() {
  sum_.add(unsummed_);
  unsummed_ = {};
}

void MovingPiece::copy_part() {
  if (!staged_) return;
  if (memory_ == nullptr) return pass_(room_.first(part_));
  std::byte* const there = memory_ + done_.n;
  std::byte* const to = read_ ? there : room_.data();
  const std::byte* const from = read_ ? room_.data() : there;
  copy_ == nullptr ? static_cast<void>(std::memcpy(to, from, part_)) : (*copy_)(to, from, part_, read_);
}

void MovingPiece::end_part() {
  if (read_) {
    if (piece_->written) sum_part();
    copy_part();
  }
  done_ += Bytes{static_cast<std::int64_t>(part_)};
  part_ = 0;
}

void MovingPiece::end() {
  meanwhile();
  if (!read_) {
    piece_->checksum = sum_.low64();
    piece_->written = true;
  } else if (piece_->written && sum_.low64() != piece_->checksum) {
    throw file_->corruption(fmt::format("{} at byte {} of the page file differ from the bytes written there",
                                        to_text(piece_->bytes), piece_->offset.n));
  }
}

std::optional<MovingPiece::Blocks> MovingPiece::next() {
  while (true) {
    if (part_ > 0) {
      const bool moving = read_ ? piece_->written && have_ < part_ : have_ < room_.size();
      if (moving) {
        return Blocks{(piece_->offset + done_).n + static_cast<std::int64_t>(have_), room_.subspan(have_)};
      }
      end_part();
    }
    if (done_ >= piece_->bytes) break;
    begin_part();
  }
  end();
  return {};
}

void MovingPiece::moved(std::int64_t result) {
  if (result == -EINTR || result == -EAGAIN) return;
  if (result < 0) throw failure(std::strerror(static_cast<int>(-result)));
  if (result == 0) throw failure(read_ ? "the file has become shorter" : "nothing was written");
  have_ += static_cast<std::size_t>(result);
  if (!read_) file_->count(Bytes{result});
}

void move_now(const NamelessFile& file, MovingPiece& piece) {
  while (const std::optional<MovingPiece::Blocks> blocks = piece.next()) {
    piece.meanwhile();  // while the previous part is in the caches
    const auto [offset, memory] = *blocks;
    const ssize_t result = piece.reads() ? ::pread(file.fd(), memory.data(), memory.size(), offset)
                                         : ::pwrite(file.fd(), memory.data(), memory.size(), offset);
    piece.moved(result < 0 ? -errno : result);
  }
}

}  // namespace plimsoll
