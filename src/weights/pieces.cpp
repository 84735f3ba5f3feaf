#include "weights/pieces.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace plimsoll {
namespace {

Error not_there(const SafetensorsFile& file, const std::string& tensor, const std::string& what) {
  return data_error("E-CKPT-FORMAT", file.path(), fmt::format("{} {}", tensor, what), "a checkpoint of this model and optimizer");
}

}  // namespace

PieceReader::PieceReader(std::span<const SafetensorsFile> files, std::vector<Piece> pieces, DType dtype, std::int64_t begin,
                         std::int64_t end, Compare compare)
    : files_(files), element_(size_of(dtype)), at_(begin * element_), compare_(std::move(compare)) {
  std::ranges::sort(pieces, {}, &Piece::begin);
  std::int64_t covered = begin;
  for (Piece& piece : pieces) {
    const SafetensorsFile& file = files_[piece.file];
    const StoredTensor* stored = file.find(piece.tensor);
    if (stored == nullptr || stored->dtype != dtype || stored->bytes != (piece.end - piece.begin) * element_) {
      throw not_there(file, piece.tensor, "is missing or of another type");
    }
    if (piece.end <= begin || piece.begin >= end) continue;
    if (piece.begin > covered || (piece.begin < covered && piece.begin > begin)) {
      throw not_there(file, piece.tensor, fmt::format("lacks or repeats elements at {}", covered));
    }
    covered = piece.end;
    pieces_.push_back(std::move(piece));
  }
  if (covered < end) throw not_there(files_.front(), pieces.empty() ? "a tensor" : pieces.front().tensor, "is not complete");
}

void PieceReader::open_next() {
  const Piece& piece = pieces_[next_++];
  file_ = &files_[piece.file];
  stored_ = file_->find(piece.tensor);
  origin_ = piece.begin * element_;
  done_ = 0;
  hasher_ = Hasher();
  skip_to(at_ - origin_);
}

void PieceReader::read_stored(std::span<std::byte> part) {
  file_->read_part(*stored_, done_, part);
  hasher_.add(part);
  done_ += std::ssize(part);
}

void PieceReader::skip_to(std::int64_t byte) {
  constexpr std::int64_t kBuffer = 256 << 10;
  if (done_ < byte) skipped_.resize(static_cast<std::size_t>(std::min(kBuffer, stored_->bytes)));
  while (done_ < byte) {
    read_stored(std::span(skipped_).first(static_cast<std::size_t>(std::min(std::ssize(skipped_), byte - done_))));
  }
}

void PieceReader::read(std::span<std::byte> part) {
  while (!part.empty()) {
    if (stored_ == nullptr) open_next();
    const auto take = static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(part), stored_->bytes - done_));
    read_stored(part.first(take));
    at_ += static_cast<std::int64_t>(take);
    part = part.subspan(take);
    if (done_ == stored_->bytes) finish();
  }
}

void PieceReader::finish() {
  if (stored_ == nullptr) return;
  skip_to(stored_->bytes);
  compare_(*file_, *stored_, hasher_);
  stored_ = nullptr;
}

}  // namespace plimsoll
