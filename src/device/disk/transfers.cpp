#include "device/disk/transfers.h"

#include <fmt/core.h>

#include <utility>

namespace plimsoll {

std::unique_ptr<Transfers> make_transfers(TransferEngine engine, Transfers::Room room) {
  switch (engine) {
    case TransferEngine::threads: return make_thread_transfers(std::move(room));
    case TransferEngine::io_uring: return make_ring_transfers(std::move(room));
  }
  throw internal_error("transfers", "there is no such engine");
}

std::optional<Transfers::Request> WaitingTransfers::take() {
  for (Lane& lane : lanes_) {
    if (lane.slots == share_ || lane.queue.empty()) continue;
    const Transfers::Request request = lane.queue.front();
    lane.queue.pop_front();
    ++lane.slots;
    return request;
  }
  return {};
}

void WaitingTransfers::drop() {
  for (Lane& lane : lanes_) lane.queue.clear();
}

std::span<std::byte> slot_of(const Transfers::Room& room, int slot) {
  const std::size_t blocks = room.staging.size() / static_cast<std::size_t>(kDiskBlock.n) / static_cast<std::size_t>(room.slots);
  const std::size_t bytes = blocks * static_cast<std::size_t>(kDiskBlock.n);
  return room.staging.subspan(bytes * static_cast<std::size_t>(slot), bytes);
}

MovingPiece moving(const Transfers::Room& room, const Transfers::Request& request, int slot) {
  return {room.file, *request.piece, request.read, slot_of(room, slot), request.memory, room.copy ? &room.copy : nullptr};
}

Error no_thread(const char* why) {
  return data_error("E-DISK-IO", "disk tier", fmt::format("a thread for transfers cannot start: {}", why),
                    "room for a few more threads within the limits of the user and the container", {"ulimit -a"});
}

}  // namespace plimsoll
