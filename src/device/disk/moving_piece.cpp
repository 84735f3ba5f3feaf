#include "device/disk/moving_piece.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/hash.h"

namespace plimsoll {

MovingPiece::MovingPiece(const NamelessFile& file, StoredPiece& piece, bool read, std::span<std::byte> staging, Pass pass)
    : file_(&file), piece_(&piece), read_(read), staging_(staging), pass_(std::move(pass)) {}

Error MovingPiece::failure(const std::string& why) const {
  return file_->failure(fmt::format("{} {} at byte {} of the page file failed: {}", read_ ? "reading" : "writing",
                                    to_text(piece_->bytes), piece_->offset.n, why));
}

void MovingPiece::begin_part() {
  part_ = static_cast<std::size_t>(std::min<std::int64_t>(static_cast<std::int64_t>(staging_.size()), (piece_->bytes - done_).n));
  blocks_ = static_cast<std::size_t>(align_up(Bytes{static_cast<std::int64_t>(part_)}, kDiskBlock).n);
  have_ = 0;
  if (read_) return;
  pass_(staging_.first(part_));
  sum_ = checksum(staging_.first(part_), sum_);
  std::memset(staging_.data() + part_, 0, blocks_ - part_);
}

void MovingPiece::end_part() {
  if (read_) {
    if (piece_->written) sum_ = checksum(staging_.first(part_), sum_);
    pass_(staging_.first(part_));
  }
  done_ += Bytes{static_cast<std::int64_t>(part_)};
  part_ = 0;
}

void MovingPiece::end() {
  if (!read_) {
    piece_->checksum = sum_;
    piece_->written = true;
  } else if (piece_->written && sum_ != piece_->checksum) {
    throw file_->corruption(
        fmt::format("{} at byte {} of the page file are not what was written there", to_text(piece_->bytes), piece_->offset.n));
  }
}

std::optional<MovingPiece::Blocks> MovingPiece::next() {
  if (read_ && !piece_->written && done_.n == 0) std::memset(staging_.data(), 0, staging_.size());
  while (true) {
    if (part_ > 0) {
      const bool moving = read_ ? piece_->written && have_ < part_ : have_ < blocks_;
      if (moving) {
        return Blocks{(piece_->offset + done_).n + static_cast<std::int64_t>(have_), staging_.subspan(have_, blocks_ - have_)};
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
}

void move_now(const NamelessFile& file, MovingPiece& piece) {
  while (const std::optional<MovingPiece::Blocks> blocks = piece.next()) {
    const auto [offset, memory] = *blocks;
    const ssize_t result = piece.reads() ? ::pread(file.fd(), memory.data(), memory.size(), offset)
                                         : ::pwrite(file.fd(), memory.data(), memory.size(), offset);
    piece.moved(result < 0 ? -errno : result);
  }
}

}  // namespace plimsoll
