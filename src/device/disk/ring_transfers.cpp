// All requests go through one ring of io_uring. A single thread submits to it and reaps from it. The thread sleeps in the ring
// until the disk has answered or a caller has written to an event descriptor, which the ring polls.

#include "device/disk/transfers.h"

#ifdef PLIMSOLL_IO_URING

#include <fmt/core.h>
#include <liburing.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace plimsoll {
namespace {

Error no_ring(int error) {
  return data_error("E-DISK-IO", "disk tier", fmt::format("the kernel refuses io_uring: {}", std::strerror(error)),
                    "a kernel and a container that allow it, as when the plan was made", {Change("plan.transfers", "threads")});
}

class Ring {
 public:
  explicit Ring(unsigned entries) {
    const int result = ::io_uring_queue_init(entries, &ring_, 0);
    if (result < 0) throw no_ring(-result);
  }
  ~Ring() { ::io_uring_queue_exit(&ring_); }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  io_uring* get() { return &ring_; }

 private:
  io_uring ring_{};
};

class Wake {
 public:
  Wake() : fd_(::eventfd(0, EFD_CLOEXEC)) {
    if (fd_ < 0) throw no_ring(errno);
  }
  ~Wake() { ::close(fd_); }
  Wake(const Wake&) = delete;
  Wake& operator=(const Wake&) = delete;
  int fd() const { return fd_; }
  void ring() const {
    while (::eventfd_write(fd_, 1) < 0 && errno == EINTR) {
    }
  }
  // Waits for the next ring() since the last call.
  void clear() const {
    eventfd_t count = 0;
    while (::eventfd_read(fd_, &count) < 0 && errno == EINTR) {
    }
  }

 private:
  int fd_;
};

class RingTransfers final : public Transfers {
 public:
  explicit RingTransfers(Room room)
      : room_(std::move(room)),
        ring_(static_cast<unsigned>(room_.slots) + 1),
        slots_(static_cast<std::size_t>(room_.slots)),
        waiting_(room_.slots) {
    try {
      reaper_.thread = std::thread([this] { work(); });
    } catch (const std::system_error& error) {
      throw no_thread(error.what());
    }
  }

  void start(const Request& request) override {
    {
      const std::lock_guard lock(mutex_);
      waiting_.add(request);
    }
    wake_.ring();
  }

 private:
  struct Slot {
    std::uint32_t event = 0;
    std::optional<MovingPiece> piece;  // absent: free
  };
  // Ends the thread before the ring and the descriptor are destroyed, also if the constructor throws.
  struct Reaper {
    RingTransfers& transfers;
    std::thread thread;
    ~Reaper() {
      {
        const std::lock_guard lock(transfers.mutex_);
        transfers.stop_ = true;
        transfers.waiting_.drop();
      }
      transfers.wake_.ring();
      if (thread.joinable()) thread.join();
    }
  };
  static constexpr std::uint64_t kWake = ~std::uint64_t{0};

  void work() {
    await_wake();
    while (!ends()) {
      hand_out();
      const int result = ::io_uring_submit_and_wait(ring_.get(), 1);
      if (result < 0 && result != -EINTR && result != -EAGAIN && result != -EBUSY) return refuse_all(-result);
      io_uring_cqe* answer = nullptr;
      while (::io_uring_peek_cqe(ring_.get(), &answer) == 0) {
        const std::uint64_t what = ::io_uring_cqe_get_data64(answer);
        const int moved = answer->res;
        ::io_uring_cqe_seen(ring_.get(), answer);
        if (what == kWake) {
          wake_.clear();
          await_wake();
        } else {
          take(what, moved);
        }
      }
    }
  }

  bool ends() {
    const std::lock_guard lock(mutex_);
    return stop_ && waiting_.all_given_back();
  }

  // Polls the event descriptor. The queue has an entry for each slot and one for this.
  void await_wake() {
    io_uring_sqe* entry = ::io_uring_get_sqe(ring_.get());
    ::io_uring_prep_poll_add(entry, wake_.fd(), POLLIN);
    ::io_uring_sqe_set_data64(entry, kWake);
  }

  std::optional<Request> next_request() {
    const std::lock_guard lock(mutex_);
    return waiting_.take();
  }

  void hand_out() {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      // A request without a disk access ends at once and leaves its slot to the next one.
      while (!slots_[i].piece) {
        const std::optional<Request> request = next_request();
        if (!request) return;
        slots_[i].event = request->event;
        slots_[i].piece.emplace(moving(room_, *request, static_cast<int>(i)));
        advance(i, std::nullopt);
      }
    }
  }

  // `moved`: the disk's answer; absent for a request that begins.
  void advance(std::size_t index, std::optional<int> moved) {
    Slot& slot = slots_[index];
    std::optional<Error> error;
    try {
      if (moved) slot.piece->moved(*moved);
      if (const std::optional<MovingPiece::Blocks> blocks = slot.piece->next()) {
        submit(index, *blocks);
        return slot.piece->meanwhile();
      }
    } catch (const Error& caught) {
      error = caught;
    } catch (const std::exception& caught) {
      error = slot.piece->failure(caught.what());
    }
    finish(slot, std::move(error));
  }

  void take(std::size_t index, int moved) {
    if (!stopping()) return advance(index, moved);
    release(slots_[index]);  // no caller waits for it any more
  }

  bool stopping() {
    const std::lock_guard lock(mutex_);
    return stop_;
  }

  void submit(std::size_t index, const MovingPiece::Blocks& blocks) {
    io_uring_sqe* entry = ::io_uring_get_sqe(ring_.get());
    const auto bytes = static_cast<unsigned>(blocks.memory.size());
    const auto offset = static_cast<std::uint64_t>(blocks.offset);
    if (slots_[index].piece->reads()) {
      ::io_uring_prep_read(entry, room_.file.fd(), blocks.memory.data(), bytes, offset);
    } else {
      ::io_uring_prep_write(entry, room_.file.fd(), blocks.memory.data(), bytes, offset);
    }
    ::io_uring_sqe_set_data64(entry, index);
    ::io_uring_submit(ring_.get());  // the disk works while the previous part is summed; a failure repeats at the wait
  }

  void give_back(bool read) {
    const std::lock_guard lock(mutex_);
    waiting_.give_back(read);
  }

  void release(Slot& slot) {
    give_back(slot.piece->reads());
    slot.piece.reset();
  }

  void finish(Slot& slot, std::optional<Error> error) {
    release(slot);
    room_.over(slot.event, std::move(error));
  }

  // The ring has failed, and with it all present and later requests. The disk may still access the staging and memory of the
  // caller; both outlive the ring.
  void refuse_all(int error) {
    const Error refused = no_ring(error);
    for (Slot& slot : slots_) {
      if (slot.piece) finish(slot, refused);
    }
    while (!stopping()) {
      while (const std::optional<Request> request = next_request()) {
        give_back(request->read);
        room_.over(request->event, refused);
      }
      wake_.clear();
    }
  }

  Room room_;
  Ring ring_;
  Wake wake_;
  std::vector<Slot> slots_;
  std::mutex mutex_;  // guards waiting_ and stop_
  WaitingTransfers waiting_;
  bool stop_ = false;
  Reaper reaper_{*this, {}};  // last: it uses all of the above
};

}  // namespace

std::unique_ptr<Transfers> make_ring_transfers(Transfers::Room room) { return std::make_unique<RingTransfers>(std::move(room)); }

std::string io_uring_refusal() {
  io_uring ring{};
  const int result = ::io_uring_queue_init(1, &ring, 0);
  if (result < 0) return std::strerror(-result);
  io_uring_probe* probe = ::io_uring_get_probe_ring(&ring);
  const bool able = probe != nullptr && ::io_uring_opcode_supported(probe, IORING_OP_READ) != 0 &&
                    ::io_uring_opcode_supported(probe, IORING_OP_WRITE) != 0;
  if (probe != nullptr) ::io_uring_free_probe(probe);
  ::io_uring_queue_exit(&ring);
  return able ? "" : "the kernel is too old for it";
}

}  // namespace plimsoll

#else

namespace plimsoll {

std::unique_ptr<Transfers> make_ring_transfers(Transfers::Room) {
  throw data_error("E-DISK-IO", "disk tier", "this build has no io_uring: " + io_uring_refusal(), "a build with liburing",
                   {Change("plan.transfers", "threads")});
}

std::string io_uring_refusal() { return "Plimsoll was built without liburing"; }

}  // namespace plimsoll

#endif
