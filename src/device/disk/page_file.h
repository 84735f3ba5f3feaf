// The disk tier: one preallocated file that holds what does not fit into memory, in pieces that are read and written whole.
// Transfers run beside the kernels, past the page cache where the file system allows it (O_DIRECT): whole blocks from and to
// where they lie if their address suits the disk, the rest through a few staging buffers of fixed size. Both are in huge pages
// where the kernel has them: what lies in one piece is one entry of the device's list instead of one for each 4 KiB, and a
// virtual disk reads it two to three times as fast. Each piece carries a checksum from when it was written to when it is read.
// The file has no name, so it is gone with the process, however that ends.
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
    int transfers = 1;       // at a time
    Bytes staging;           // of each, and of reads and writes by the caller; a multiple of kPieceAlignment
    std::size_t events = 0;  // their numbers are smaller than this
    TransferEngine engine = TransferEngine::threads;
    MovingPiece::Copy copy;  // of transfers whose memory is not the host's
  };

  // Throws data_error E-DISK-FOLDER where no file can be made in the folder, E-DISK-FULL where it has not so many bytes left,
  // E-DISK-IO where a thread cannot start or the kernel refuses io_uring; E-MEM-ARENA where there is no memory for the staging.
  PageFile(const std::filesystem::path& folder, const Sizes& sizes, std::vector<Piece> pieces);
  PageFile(const PageFile&) = delete;
  PageFile& operator=(const PageFile&) = delete;

  void start_read(std::uint32_t event, Bytes offset, std::span<std::byte> to) override;
  void start_write(std::uint32_t event, Bytes offset, std::span<const std::byte> from) override;
  // Throws data_error E-DISK-IO (it failed) or E-DISK-CORRUPT (what was read is not what had been written).
  void wait(std::uint32_t event) override;

  void read(Bytes offset, Bytes bytes, const std::function<void(std::span<const std::byte>)>& sink) override;
  void write(Bytes offset, Bytes bytes, const std::function<void(std::span<std::byte>)>& source) override;

  Bytes height() const override { return height_of(pieces_); }
  Bytes written() const override { return written_of(pieces_); }
  Bytes wear() const override { return file_.written(); }
  std::optional<TransferEngine> transfers() const override { return sizes_.engine; }

  bool direct() const { return file_.direct(); }  // past the page cache
  TransferEngine engine() const { return sizes_.engine; }
  int fd() const { return file_.fd(); }
  // Through which transfers of other memory than the host's pass.
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
  Arena staging_;                    // of each transfer, then that of the caller
  std::mutex mutex_;                 // of the events
  std::condition_variable done_;
  std::vector<Event> events_;
  std::unique_ptr<Transfers> transfers_;  // last: they use all of the above
};

}  // namespace plimsoll
