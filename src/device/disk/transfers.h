// The engines that move pieces next to the kernels: the operating system's io_uring with one thread, or plain threads. Both do
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
  // The resources of all transfers, which outlive them. `over` is called at the end of a request, on a thread of the transfers.
  struct Room {
    const NamelessFile& file;
    std::span<std::byte> staging;  // `slots` buffers of one size
    int slots = 1;
    std::function<void(std::uint32_t event, std::optional<Error>)> over;
    MovingPiece::Copy copy;  // null: the memory is the host's
  };

  // Drops requests that have not begun and waits for those at the disk.
  virtual ~Transfers() = default;
  virtual void start(const Request& request) = 0;
};

// Requests that wait for a slot. Reads and writes have a lane each, in the order of starts and with half of the slots, so that an
// urgent read does not wait for all writes. The caller locks.
class WaitingTransfers {
 public:
  explicit WaitingTransfers(int slots) : share_((slots + 1) / 2) {}

  void add(const Transfers::Request& request) { lane(request.read).queue.push_back(request); }
  // The next request of a lane with a free slot. It has the slot until give_back().
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

// Throws data_error E-DISK-IO if a thread cannot start or the kernel refuses io_uring.
std::unique_ptr<Transfers> make_transfers(TransferEngine engine, Transfers::Room room);
std::unique_ptr<Transfers> make_thread_transfers(Transfers::Room room);
std::unique_ptr<Transfers> make_ring_transfers(Transfers::Room room);

// The reason that io_uring cannot be used here: a build without liburing, a kernel without io_uring, a container or a setting
// that refuses it. Empty if it can be used.
std::string io_uring_refusal();

// The part of the staging of a slot, and the piece of a request that moves through it.
std::span<std::byte> slot_of(const Transfers::Room& room, int slot);
MovingPiece moving(const Transfers::Room& room, const Transfers::Request& request, int slot);
// The error of a thread that cannot start.
Error no_thread(const char* why);

}  // namespace plimsoll
