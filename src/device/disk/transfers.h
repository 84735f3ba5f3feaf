// Who moves pieces beside the kernels: a ring of the kernel's (io_uring) with one thread that reaps, or plain threads. Both do
// the same to memory and disk (moving_piece.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/transfer_engine.h"
#include "device/disk/moving_piece.h"

namespace plimsoll {

class Transfers {
 public:
  struct Request {
    std::uint32_t event = 0;
    bool read = false;
    StoredPiece* piece = nullptr;
    std::byte* memory = nullptr;
  };
  // The resources of all transfers, and the listener that hears, on a thread of theirs, the end of a request. It outlives them.
  struct Room {
    const NamelessFile& file;
    std::span<std::byte> staging;  // `slots` buffers of one size
    int slots = 1;
    std::function<void(std::uint32_t event, std::optional<Error>)> over;
    MovingPiece::Copy copy;  // null: the memory is the host's
  };

  virtual ~Transfers() = default;  // what has not begun is dropped, what the disk is at is waited for
  virtual void start(const Request& request) = 0;
};

// Transfers that wait for a slot. Reads and writes are two lanes, each in the order of its starts and with half of the slots, so
// that an urgent read does not stand behind all writes. The caller locks.
class WaitingTransfers {
 public:
  explicit WaitingTransfers(int slots) : share_((slots + 1) / 2) {}

  void add(const Transfers::Request& request) { lane(request.read).queue.push_back(request); }
  // The next of a lane that has a slot to spare, and has it until that is given back.
  std::optional<Transfers::Request> take();
  void give_back(bool read) { --lane(read).slots; }
  void drop();
  bool all_given_back() const { return lanes_[0].slots + lanes_[1].slots == 0; }

 private:
  struct Lane {
    std::deque<Transfers::Request> queue;
    int slots = 0;
  };
  Lane& lane(bool read) { return lanes_[read ? 0 : 1]; }

  int share_;
  std::array<Lane, 2> lanes_;
};

// Throws data_error E-DISK-IO where a thread cannot start or the kernel has no ring.
std::unique_ptr<Transfers> make_transfers(TransferEngine engine, Transfers::Room room);
std::unique_ptr<Transfers> make_thread_transfers(Transfers::Room room);
std::unique_ptr<Transfers> make_ring_transfers(Transfers::Room room);

// Why io_uring cannot be used here: a build without liburing, a kernel without it, a container or a setting that refuses it.
// Empty where it can.
std::string io_uring_refusal();

// The part of the room that the slot with that number holds, and a request that moves through it.
std::span<std::byte> slot_of(const Transfers::Room& room, int slot);
MovingPiece moving(const Transfers::Room& room, const Transfers::Request& request, int slot);
// The error of a thread that cannot start.
Error no_thread(const char* why);

}  // namespace plimsoll
