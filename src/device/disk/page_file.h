// The disk tier: a preallocated file without a name (nameless_file.h), in pieces that are read and written whole. Transfers run
// next to the kernels. Whole blocks move from and to their place in memory if the address suits the disk, the rest through a few
// staging buffers of fixed size. Arena and staging lie in huge pages if the kernel has them: contiguous memory is one entry of
// the device's list instead of one for each 4 KiB, and a virtual disk moves it two to three times as fast. A piece has a checksum
// from its write to its read.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/transfer_engine.h"
#include "device/arena.h"
#include "device/disk/transfers.h"
#include "device/tier_store.h"

namespace plimsoll {

class PageFile final : public TierStore {
 public:
  static_assert(kPieceAlignment == kDiskBlock);

  struct Sizes {
    Bytes file;
    int transfers = 1;       // number of concurrent transfers
    Bytes staging;           // per transfer, and for read() and write(); a multiple of kPieceAlignment
    std::size_t events = 0;  // upper bound of the event numbers, exclusive
    TransferEngine engine = TransferEngine::threads;
    MovingPiece::Copy copy;  // for transfers from and to memory of a device; null: of the host
  };

  // Throws data_error E-DISK-FOLDER if the folder takes no file, E-DISK-FULL if the disk has no room, and E-DISK-IO if a thread
  // cannot start or the kernel refuses io_uring. Throws E-MEM-ARENA if there is no memory for the staging.
  PageFile(const std::filesystem::path& folder, const Sizes& sizes, std::vector<Piece> pieces);
  PageFile(const PageFile&) = delete;
  PageFile& operator=(const PageFile&) = delete;

  void start_read(std::uint32_t event, Bytes offset, std::span<std::byte> to) override;
  void start_write(std::uint32_t event, Bytes offset, std::span<const std::byte> from) override;
  // Throws data_error E-DISK-IO (the transfer failed) or E-DISK-CORRUPT (the bytes read differ from those written).
  void wait(std::uint32_t event) override;

  void read(Bytes offset, Bytes bytes, const std::function<void(std::span<const std::byte>)>& sink) override;
  void write(Bytes offset, Bytes bytes, const std::function<void(std::span<std::byte>)>& source) override;

  Bytes height() const override { return height_of(pieces_); }
  Bytes written() const override { return written_of(pieces_); }
  Bytes wear() const override { return file_.written(); }
  std::optional<TransferEngine> transfers() const override { return sizes_.engine; }

  bool direct() const { return file_.direct(); }  // bypasses the page cache
  TransferEngine engine() const { return sizes_.engine; }
  int fd() const { return file_.fd(); }
  // The buffers of transfers from and to memory of a device.
  std::span<std::byte> staging() const { return staging_.all(); }

 private:
  struct Event {
    bool busy = false;
    std::optional<Error> error;
  };

  void start(const Transfers::Request& request, std::size_t bytes);
  void over(std::uint32_t event, std::optional<Error> error);
  void move(Bytes offset, Bytes bytes, bool read, const MovingPiece::Pass& pass);

  Sizes sizes_;
  NamelessFile file_;
  std::vector<StoredPiece> pieces_;  // by offset
  Arena staging_;                    // the part of each transfer, then the part of read() and write()
  std::mutex mutex_;                 // guards the events
  std::condition_variable done_;
  std::vector<Event> events_;
  std::unique_ptr<Transfers> transfers_;  // last: they use all of the above
};

}  // namespace plimsoll
