#include "device/disk/page_file.h"

#include <algorithm>
#include <utility>

namespace plimsoll {
namespace {

Bytes staging_bytes(const PageFile::Sizes& sizes) {
  ensure(sizes.staging.n > 0 && sizes.staging.n % PageFile::kPieceAlignment.n == 0, "page file",
         "the staging is no whole number of blocks");
  return sizes.staging * (sizes.transfers + 1);
}

std::vector<StoredPiece> by_offset(const std::vector<PageFile::Piece>& pieces) {
  std::vector<StoredPiece> stored;
  stored.reserve(pieces.size());
  for (const PageFile::Piece& piece : pieces) stored.push_back({piece.offset, piece.bytes});
  std::sort(stored.begin(), stored.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  return stored;
}

// The number of slots. A ring has no thread per slot, so it uses more slots if pieces are smaller than a thread's part of the
// staging.
int slots_of(const PageFile::Sizes& sizes, const std::vector<StoredPiece>& pieces) {
  constexpr std::int64_t kMostSlots = 16;
  if (sizes.engine == TransferEngine::threads || pieces.empty()) return sizes.transfers;
  Bytes largest = PageFile::kPieceAlignment;
  for (const StoredPiece& piece : pieces) largest = std::max(largest, align_up(piece.bytes, PageFile::kPieceAlignment));
  const std::int64_t room = (sizes.staging * sizes.transfers).n / std::min(largest, sizes.staging).n;
  return static_cast<int>(std::clamp<std::int64_t>(room, sizes.transfers, kMostSlots));
}

}  // namespace

PageFile::PageFile(const std::filesystem::path& folder, const Sizes& sizes, std::vector<Piece> pieces)
    : sizes_(sizes),
      file_(folder, sizes.file),
      pieces_(by_offset(pieces)),
      staging_(staging_bytes(sizes)),
      events_(sizes.events) {
  const auto slots = static_cast<std::size_t>((sizes.staging * sizes.transfers).n);
  transfers_ = make_transfers(
      sizes.engine, {file_, staging_.all().first(slots), slots_of(sizes, pieces_),
                     [this](std::uint32_t event, std::optional<Error> error) { over(event, std::move(error)); }, sizes.copy});
}

void PageFile::start(const Transfers::Request& request, std::size_t bytes) {
  ensure(request.piece->bytes.n == static_cast<std::int64_t>(bytes), "page file", "a piece is moved whole or not at all");
  {
    const std::lock_guard lock(mutex_);
    ensure(request.event < events_.size() && !events_[request.event].busy, "page file", "an event is in use");
    events_[request.event] = {true, std::nullopt};
  }
  transfers_->start(request);
}

void PageFile::start_read(std::uint32_t event, Bytes offset, std::span<std::byte> to) {
  start({event, true, &piece_at(pieces_, offset), to.data()}, to.size());
}

void PageFile::start_write(std::uint32_t event, Bytes offset, std::span<const std::byte> from) {
  start({event, false, &piece_at(pieces_, offset), const_cast<std::byte*>(from.data())}, from.size());
}

void PageFile::over(std::uint32_t event, std::optional<Error> error) {
  {
    const std::lock_guard lock(mutex_);
    events_[event] = {false, std::move(error)};
  }
  done_.notify_all();
}

void PageFile::wait(std::uint32_t event) {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return !events_.at(event).busy; });
  if (const std::optional<Error> error = std::exchange(events_[event].error, std::nullopt)) throw *error;
}

void PageFile::move(Bytes offset, Bytes bytes, bool read, const MovingPiece::Pass& pass) {
  const std::span<std::byte> staging = staging_.all().last(static_cast<std::size_t>(sizes_.staging.n));
  for (Bytes begin = offset; begin < offset + bytes;) {
    StoredPiece& stored = piece_at(pieces_, begin);
    MovingPiece piece(file_, stored, read, staging, pass);
    move_now(file_, piece);
    begin += stored.bytes;
  }
}

void PageFile::read(Bytes offset, Bytes bytes, const std::function<void(std::span<const std::byte>)>& sink) {
  move(offset, bytes, true, [&](std::span<std::byte> part) { sink(part); });
}

void PageFile::write(Bytes offset, Bytes bytes, const std::function<void(std::span<std::byte>)>& source) {
  move(offset, bytes, false, source);
}

}  // namespace plimsoll
