// The memory of a host as a tier of a simulated device: one arena, and one thread per direction that copies next to the kernels,
// like the copy engines of a device.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "device/arena.h"
#include "device/tier_store.h"

namespace plimsoll {

class HostStore final : public TierStore {
 public:
  // Numbers of events are smaller than `events`. Throws E-MEM-ARENA if the system refuses the memory, E-DISK-IO if a thread
  // cannot start.
  HostStore(Bytes size, std::size_t events, const std::vector<Piece>& pieces);
  ~HostStore() override;

  void start_read(std::uint32_t event, Bytes offset, std::span<std::byte> to) override;
  void start_write(std::uint32_t event, Bytes offset, std::span<const std::byte> from) override;
  void wait(std::uint32_t event) override;

  void read(Bytes offset, Bytes bytes, const std::function<void(std::span<const std::byte>)>& sink) override;
  void write(Bytes offset, Bytes bytes, const std::function<void(std::span<std::byte>)>& source) override;

  Bytes height() const override { return height_of(pieces_); }
  Bytes written() const override { return written_of(pieces_); }

 private:
  struct HeldPiece {
    Bytes offset, bytes;
    bool written = false;
  };
  struct Copy {
    std::uint32_t event = 0;
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::size_t bytes = 0;
  };
  struct Lane {
    std::deque<Copy> copies;
    std::thread thread;
  };

  void start(Lane& lane, const Copy& copy);
  void work(Lane& lane);
  void stop();
  std::byte* place_of(HeldPiece& piece, std::size_t bytes) const;

  Arena arena_;
  std::vector<HeldPiece> pieces_;  // by offset
  std::mutex mutex_;               // guards all below
  std::condition_variable wake_, done_;
  std::vector<char> busy_;  // by event
  bool stop_ = false;
  Lane in_, out_;
};

}  // namespace plimsoll
