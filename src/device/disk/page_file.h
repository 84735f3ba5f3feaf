// The disk tier: one preallocated file that holds what does not fit into memory, in pieces that are read and written whole.
// Transfers run beside the kernels on threads of their own, past the page cache where the file system allows it (O_DIRECT),
// through a few staging buffers of fixed size. Each piece carries a checksum from when it was written to when it is read. The
// file has no name, so it is gone with the process, however that ends.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"

namespace plimsoll {

class PageFile {
 public:
  // Offsets are multiples of kPieceAlignment, and pieces do not overlap.
  struct Piece {
    Bytes offset, bytes;
  };
  static constexpr Bytes kPieceAlignment{4096};

  struct Sizes {
    Bytes file;
    int transfers = 1;       // at a time
    Bytes staging;           // of each, and of reads and writes without threads; a multiple of kPieceAlignment
    std::size_t events = 0;  // their numbers are smaller than this
  };

  // Throws data_error E-DISK-FOLDER where no file can be made in the folder, E-DISK-FULL where it has not so many bytes left,
  // E-DISK-IO where there is no memory for the staging or a thread cannot start.
  PageFile(const std::filesystem::path& folder, const Sizes& sizes, std::vector<Piece> pieces);
  PageFile(const PageFile&) = delete;
  PageFile& operator=(const PageFile&) = delete;

  // Starts a transfer of the piece at `offset`; memory belongs to it until `wait` returns. A piece that was never written reads
  // as zeros.
  void start_read(std::uint32_t event, Bytes offset, std::span<std::byte> to);
  void start_write(std::uint32_t event, Bytes offset, std::span<const std::byte> from);
  // Until the transfer with that event is over. Throws data_error E-DISK-IO (it failed) or E-DISK-CORRUPT (what was read is not
  // what had been written).
  void wait(std::uint32_t event);

  // The pieces within [offset, offset + bytes), in order, without threads: for checkpoints.
  void read(Bytes offset, Bytes bytes, const std::function<void(std::span<const std::byte>)>& sink);
  void write(Bytes offset, Bytes bytes, const std::function<void(std::span<std::byte>)>& source);

  bool direct() const { return direct_; }  // past the page cache
  int fd() const { return file_.fd; }
  // The end of the highest piece that was written, up to the alignment, and the bytes of all pieces that were.
  Bytes height() const;
  Bytes written() const;

 private:
  struct Stored {
    Piece piece;
    std::uint64_t checksum = 0;
    bool written = false;
  };
  struct Request {
    std::uint32_t event = 0;
    bool read = false;
    Stored* stored = nullptr;
    std::byte* memory = nullptr;
  };
  struct Event {
    bool busy = false;
    std::optional<Error> error;
  };

  // Each ends what it stands for, also where the constructor throws after it.
  struct File {
    int fd;
    ~File();
  };
  struct Staging {
    std::byte* base;
    Bytes bytes;
    explicit Staging(Bytes bytes);
    ~Staging();
  };
  struct Workers {
    PageFile& file;
    std::vector<std::thread> threads;
    ~Workers();
  };

  Stored& at(Bytes offset);
  void start(Request request, std::size_t bytes);
  void start_thread(int transfer);
  std::byte* staging_of(int transfer) const { return staging_.base + (sizes_.staging * transfer).n; }
  void work(std::byte* staging);
  void run(const Request& request, std::byte* staging);
  void read_piece(Stored& stored, std::byte* staging, const std::function<void(std::span<const std::byte>)>& sink);
  void write_piece(Stored& stored, std::byte* staging, const std::function<void(std::span<std::byte>)>& source);
  std::string continue_elsewhere() const;
  Error failed(const char* what, const Stored& stored, const std::string& why) const;

  void for_parts(const Piece& piece, const std::function<void(std::int64_t, std::size_t)>& body) const;

  std::string folder_;
  Sizes sizes_;
  File file_;
  bool direct_ = false;
  std::vector<Stored> pieces_;  // by offset
  Staging staging_;             // of each transfer, then that without threads
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::deque<Request> queue_;
  std::vector<Event> events_;
  bool stop_ = false;
  Workers workers_{*this, {}};  // last: they use all of the above
};

}  // namespace plimsoll
