#include "device/disk/page_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <system_error>
#include <utility>

#include "base/hash.h"

namespace plimsoll {
namespace {

// A folder elsewhere, with the size that is needed: the budget of the same command would do there.
std::string elsewhere(Bytes size) { return fmt::format("--disk ANOTHER_FOLDER:{}MiB", ceil_div(size.n, kMiB.n)); }

Error no_file(const std::filesystem::path& folder, Bytes size, int error) {
  return data_error("E-DISK-FOLDER", folder.string(), fmt::format("no file can be made there: {}", std::strerror(error)),
                    "a folder that can be written", {elsewhere(size)});
}

// O_TMPFILE where the file system has it, else a file that loses its name at once.
int open_nameless(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) return fd;
  std::string pattern = (folder / "plimsoll-pages-XXXXXX").string();
  const int named = ::mkostemp(pattern.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(pattern.c_str());
  return named;
}

int open_file(const std::filesystem::path& folder, Bytes size) {
  const int fd = open_nameless(folder);
  if (fd < 0) throw no_file(folder, size, errno);
  return fd;
}

void allocate(int fd, Bytes size, const std::filesystem::path& folder) {
  const int error = ::posix_fallocate(fd, 0, size.n);
  if (error == 0) return;
  struct statvfs room {};
  const Bytes left{::fstatvfs(fd, &room) == 0 ? static_cast<std::int64_t>(room.f_bavail * room.f_frsize) : 0};
  throw data_error(
      "E-DISK-FULL", folder.string(),
      fmt::format("{} cannot be set aside there ({}); {} are free", to_text(size), std::strerror(error), to_text(left)),
      "a disk with room for what the plan keeps there", {elsewhere(size)});
}

// Only then: where the file system cannot set bytes aside, the C library writes single ones, which O_DIRECT refuses.
bool make_direct(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && ::fcntl(fd, F_SETFL, flags | O_DIRECT) == 0;
}

Bytes staging_bytes(const PageFile::Sizes& sizes) {
  ensure(sizes.staging.n > 0 && sizes.staging.n % PageFile::kPieceAlignment.n == 0, "page file",
         "the staging is no whole number of blocks");
  return sizes.staging * (sizes.transfers + 1);
}

std::size_t padded(std::size_t bytes) {
  return static_cast<std::size_t>(align_up(Bytes{static_cast<std::int64_t>(bytes)}, PageFile::kPieceAlignment).n);
}

}  // namespace

// Parts of a piece, each a whole number of blocks on the disk; `body(offset, bytes)` has the bytes without the last one's
// padding.
void PageFile::for_parts(const Piece& piece, const std::function<void(std::int64_t, std::size_t)>& body) const {
  for (std::int64_t done = 0; done < piece.bytes.n; done += sizes_.staging.n) {
    body(piece.offset.n + done, static_cast<std::size_t>(std::min(sizes_.staging.n, piece.bytes.n - done)));
  }
}

PageFile::File::~File() { ::close(fd); }

PageFile::Staging::Staging(Bytes bytes) : bytes(bytes) {
  void* memory = ::mmap(nullptr, static_cast<std::size_t>(bytes.n), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) {
    throw data_error("E-DISK-IO", "disk tier", fmt::format("there is no memory for {} of staging", to_text(bytes)));
  }
  base = static_cast<std::byte*>(memory);
}

PageFile::Staging::~Staging() { ::munmap(base, static_cast<std::size_t>(bytes.n)); }

PageFile::Workers::~Workers() {
  {
    const std::lock_guard lock(file.mutex_);
    file.stop_ = true;
    file.queue_.clear();
  }
  file.wake_.notify_all();
  for (std::thread& thread : threads) thread.join();
}

PageFile::PageFile(const std::filesystem::path& folder, const Sizes& sizes, std::vector<Piece> pieces)
    : folder_(folder.string()),
      sizes_(sizes),
      file_{open_file(folder, sizes.file)},
      staging_(staging_bytes(sizes)),
      events_(sizes.events) {
  allocate(file_.fd, sizes.file, folder);
  direct_ = make_direct(file_.fd);
  pieces_.reserve(pieces.size());
  for (const Piece& piece : pieces) pieces_.push_back({piece});
  std::sort(pieces_.begin(), pieces_.end(), [](const Stored& a, const Stored& b) { return a.piece.offset < b.piece.offset; });
  for (int i = 0; i < sizes.transfers; ++i) start_thread(i);
}

void PageFile::start_thread(int transfer) {
  try {
    workers_.threads.emplace_back([this, transfer] { work(staging_of(transfer)); });
  } catch (const std::system_error& error) {
    throw data_error("E-DISK-IO", "disk tier", fmt::format("a thread of its transfers cannot start: {}", error.what()),
                     "room for a few more threads within the limits of the user and the container", {"ulimit -a"});
  }
}

PageFile::Stored& PageFile::at(Bytes offset) {
  const auto found = std::lower_bound(pieces_.begin(), pieces_.end(), offset,
                                      [](const Stored& stored, Bytes wanted) { return stored.piece.offset < wanted; });
  ensure(found != pieces_.end() && found->piece.offset == offset, "page file", "no piece begins at this offset");
  return *found;
}

void PageFile::start(Request request, std::size_t bytes) {
  ensure(request.stored->piece.bytes.n == static_cast<std::int64_t>(bytes), "page file", "a piece is moved whole or not at all");
  {
    const std::lock_guard lock(mutex_);
    ensure(request.event < events_.size() && !events_[request.event].busy, "page file", "an event is in use");
    events_[request.event] = {true, std::nullopt};
    queue_.push_back(request);
  }
  wake_.notify_one();
}

void PageFile::start_read(std::uint32_t event, Bytes offset, std::span<std::byte> to) {
  start({event, true, &at(offset), to.data()}, to.size());
}

void PageFile::start_write(std::uint32_t event, Bytes offset, std::span<const std::byte> from) {
  start({event, false, &at(offset), const_cast<std::byte*>(from.data())}, from.size());
}

void PageFile::wait(std::uint32_t event) {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return !events_.at(event).busy; });
  if (const std::optional<Error> error = std::exchange(events_[event].error, std::nullopt)) throw *error;
}

void PageFile::work(std::byte* staging) {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (stop_) return;
    const Request request = queue_.front();
    queue_.pop_front();
    lock.unlock();
    std::optional<Error> error;
    try {
      run(request, staging);
    } catch (const Error& caught) {
      error = caught;
    } catch (const std::exception& caught) {
      error = failed(request.read ? "reading" : "writing", *request.stored, caught.what());
    }
    lock.lock();
    events_[request.event] = {false, std::move(error)};
    done_.notify_all();
  }
}

void PageFile::run(const Request& request, std::byte* staging) {
  std::byte* at = request.memory;
  if (request.read) {
    read_piece(*request.stored, staging, [&](std::span<const std::byte> part) {
      std::memcpy(at, part.data(), part.size());
      at += part.size();
    });
  } else {
    write_piece(*request.stored, staging, [&](std::span<std::byte> part) {
      std::memcpy(part.data(), at, part.size());
      at += part.size();
    });
  }
}

std::string PageFile::continue_elsewhere() const {
  return fmt::format("plimsoll train CONFIG --run DIR --resume {}", elsewhere(sizes_.file));
}

Error PageFile::failed(const char* what, const Stored& stored, const std::string& why) const {
  return data_error(
      "E-DISK-IO", folder_,
      fmt::format("{} {} at byte {} of the page file failed: {}", what, to_text(stored.piece.bytes), stored.piece.offset.n, why),
      "a disk that works; the last checkpoint is intact", {continue_elsewhere()});
}

void PageFile::read_piece(Stored& stored, std::byte* staging, const std::function<void(std::span<const std::byte>)>& sink) {
  if (!stored.written) {
    std::memset(staging, 0, static_cast<std::size_t>(sizes_.staging.n));
    for_parts(stored.piece, [&](std::int64_t, std::size_t bytes) { sink({staging, bytes}); });
    return;
  }
  std::uint64_t sum = 0;
  for_parts(stored.piece, [&](std::int64_t offset, std::size_t bytes) {
    for (std::size_t have = 0; have < bytes;) {
      const ssize_t got = ::pread(file_.fd, staging + have, padded(bytes) - have, offset + static_cast<std::int64_t>(have));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw failed("reading", stored, std::strerror(errno));
      if (got == 0) throw failed("reading", stored, "the file has become shorter");
      have += static_cast<std::size_t>(got);
    }
    sum = checksum({staging, bytes}, sum);
    sink({staging, bytes});
  });
  if (sum != stored.checksum) {
    throw data_error("E-DISK-CORRUPT", folder_,
                     fmt::format("{} at byte {} of the page file are not what was written there", to_text(stored.piece.bytes),
                                 stored.piece.offset.n),
                     "a disk that keeps what is written; the last checkpoint is intact", {continue_elsewhere()});
  }
}

void PageFile::write_piece(Stored& stored, std::byte* staging, const std::function<void(std::span<std::byte>)>& source) {
  std::uint64_t sum = 0;
  for_parts(stored.piece, [&](std::int64_t offset, std::size_t bytes) {
    source({staging, bytes});
    sum = checksum({staging, bytes}, sum);
    std::memset(staging + bytes, 0, padded(bytes) - bytes);
    for (std::size_t put = 0; put < padded(bytes);) {
      const ssize_t done = ::pwrite(file_.fd, staging + put, padded(bytes) - put, offset + static_cast<std::int64_t>(put));
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) throw failed("writing", stored, done < 0 ? std::strerror(errno) : "nothing was written");
      put += static_cast<std::size_t>(done);
    }
  });
  stored.checksum = sum;
  stored.written = true;
}

void PageFile::read(Bytes offset, Bytes bytes, const std::function<void(std::span<const std::byte>)>& sink) {
  for (Bytes at_byte = offset; at_byte < offset + bytes;) {
    Stored& stored = at(at_byte);
    read_piece(stored, staging_of(sizes_.transfers), sink);
    at_byte += stored.piece.bytes;
  }
}

void PageFile::write(Bytes offset, Bytes bytes, const std::function<void(std::span<std::byte>)>& source) {
  for (Bytes at_byte = offset; at_byte < offset + bytes;) {
    Stored& stored = at(at_byte);
    write_piece(stored, staging_of(sizes_.transfers), source);
    at_byte += stored.piece.bytes;
  }
}

Bytes PageFile::height() const {
  Bytes top;
  for (const Stored& stored : pieces_) {
    if (stored.written) top = std::max(top, align_up(stored.piece.offset + stored.piece.bytes, kPieceAlignment));
  }
  return top;
}

Bytes PageFile::written() const {
  Bytes sum;
  for (const Stored& stored : pieces_) {
    if (stored.written) sum += align_up(stored.piece.bytes, kPieceAlignment);
  }
  return sum;
}

}  // namespace plimsoll
