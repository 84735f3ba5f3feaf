#include "device/host_store.h"

#include <algorithm>
#include <cstring>
#include <system_error>

#include "base/error.h"
#include "device/disk/transfers.h"

namespace plimsoll {

HostStore::HostStore(Bytes size, std::size_t events, const std::vector<Piece>& pieces) : arena_(size), busy_(events, 0) {
  for (const Piece& piece : pieces) pieces_.push_back({piece.offset, piece.bytes});
  std::sort(pieces_.begin(), pieces_.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  try {
    for (Lane* lane : {&in_, &out_}) lane->thread = std::thread([this, lane] { work(*lane); });
  } catch (const std::system_error& error) {
    stop();
    throw no_thread(error.what());
  }
}

HostStore::~HostStore() { stop(); }

void HostStore::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (Lane* lane : {&in_, &out_}) {
    if (lane->thread.joinable()) lane->thread.join();
  }
}

void HostStore::work(Lane& lane) {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stop_ || !lane.copies.empty(); });
    if (stop_) return;
    const Copy copy = lane.copies.front();
    lane.copies.pop_front();
    lock.unlock();
    std::memcpy(copy.to, copy.from, copy.bytes);
    lock.lock();
    busy_[copy.event] = 0;
    done_.notify_all();
  }
}

void HostStore::start(Lane& lane, const Copy& copy) {
  {
    const std::lock_guard lock(mutex_);
    ensure(copy.event < busy_.size() && busy_[copy.event] == 0, "host tier", "an event is in use");
    busy_[copy.event] = 1;
    lane.copies.push_back(copy);
  }
  wake_.notify_all();
}

std::byte* HostStore::place_of(HeldPiece& piece, std::size_t bytes) const {
  ensure(piece.bytes.n == static_cast<std::int64_t>(bytes), "host tier", "a piece is moved whole or not at all");
  return arena_.base() + piece.offset.n;
}

void HostStore::start_read(std::uint32_t event, Bytes offset, std::span<std::byte> to) {
  start(in_, {event, place_of(piece_at(pieces_, offset), to.size()), to.data(), to.size()});
}

void HostStore::start_write(std::uint32_t event, Bytes offset, std::span<const std::byte> from) {
  HeldPiece& piece = piece_at(pieces_, offset);
  piece.written = true;
  start(out_, {event, from.data(), place_of(piece, from.size()), from.size()});
}

void HostStore::wait(std::uint32_t event) {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return busy_.at(event) == 0; });
}

void HostStore::read(Bytes offset, Bytes bytes, const std::function<void(std::span<const std::byte>)>& sink) {
  for (Bytes begin = offset; begin < offset + bytes;) {
    HeldPiece& piece = piece_at(pieces_, begin);
    sink({arena_.base() + begin.n, static_cast<std::size_t>(piece.bytes.n)});
    begin += piece.bytes;
  }
}

void HostStore::write(Bytes offset, Bytes bytes, const std::function<void(std::span<std::byte>)>& source) {
  for (Bytes begin = offset; begin < offset + bytes;) {
    HeldPiece& piece = piece_at(pieces_, begin);
    source({arena_.base() + begin.n, static_cast<std::size_t>(piece.bytes.n)});
    piece.written = true;
    begin += piece.bytes;
  }
}

}  // namespace plimsoll
