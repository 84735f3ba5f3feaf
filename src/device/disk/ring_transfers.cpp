// All requests go through one ring of the kernel's, fed and reaped by one thread. That thread alone touches the ring: it sleeps
// there until the disk has answered or somebody has written to an event descriptor, whose poll is in the ring as well.
//
// Pieces that come and pieces that go are two lanes, each in the order of its starts, which is the order in which they are waited
// for: the disk is asked for a later piece only where nothing of an earlier one is left to ask for, so that pieces do not share
// what the disk gives and all come late.

#include "device/disk/transfers.h"

#ifdef PLIMSOLL_IO_URING

#include <fmt/format.h>
#include <liburing.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace plimsoll {
namespace {

Error no_ring(int error) {
  return data_error("E-DISK-IO", "disk tier", fmt::format("the kernel gives no io_uring: {}", std::strerror(error)),
                    "a kernel and a container that allow it, as when the plan was made", {"--set plan.transfers=threads"});
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
  // Until somebody has rung, if nobody has yet.
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
        ring_(static_cast<unsigned>(room_.slots) * kQuestions + 1),
        slots_(static_cast<std::size_t>(room_.slots)),
        questions_(slots_.size() * kQuestions) {
    try {
      reaper_.thread = std::thread([this] { work(); });
    } catch (const std::system_error& error) {
      throw no_thread(error.what());
    }
  }

  void start(const Request& request) override {
    {
      const std::lock_guard lock(mutex_);
      queue_[request.read ? 1 : 0].push_back(request);
    }
    wake_.ring();
  }

 private:
  struct Slot {
    std::uint32_t event = 0;
    std::optional<MovingPiece> piece;  // absent: free
    int asked = 0;                     // parts that the disk is at
    std::optional<Error> error;        // of the piece, which is over once the disk is at none of its parts
  };
  struct Lane {
    std::deque<std::size_t> slots;  // in the order of the starts
    std::size_t asked = 0;          // bytes that the disk is at
  };
  // What the disk is at.
  struct Question {
    std::size_t slot = 0, bytes = 0;  // of none: free
    std::uint32_t part = 0;
  };
  // Before the ring and the descriptor go, also where the constructor throws after it.
  struct Reaper {
    RingTransfers& transfers;
    std::thread thread;
    ~Reaper() {
      {
        const std::lock_guard lock(transfers.mutex_);
        transfers.stop_ = true;
        for (std::deque<Request>& queue : transfers.queue_) queue.clear();
      }
      transfers.wake_.ring();
      if (thread.joinable()) thread.join();
    }
  };
  static constexpr std::uint64_t kWake = ~std::uint64_t{0};
  static constexpr std::size_t kQuestions = MovingPiece::kParts;
  static constexpr std::size_t kAtOnce = 2 << 20;  // bytes of each lane: enough to keep a disk at work

  void work() {
    await_wake();
    while (!ends()) {
      if (!stopping()) ask_all();
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

  bool ends() { return stopping() && under_way_ == 0; }

  // The queue has an entry for each question and this.
  void await_wake() {
    io_uring_sqe* entry = ::io_uring_get_sqe(ring_.get());
    ::io_uring_prep_poll_add(entry, wake_.fd(), POLLIN);
    ::io_uring_sqe_set_data64(entry, kWake);
  }

  std::optional<Request> next_request(bool read) {
    const std::lock_guard lock(mutex_);
    std::deque<Request>& queue = queue_[read ? 1 : 0];
    if (queue.empty()) return {};
    const Request request = queue.front();
    queue.pop_front();
    return request;
  }

  void ask_all() {
    for (const bool read : {true, false}) {
      while (lane(read).asked < kAtOnce && (ask_next(read) || begin_next(read))) {
      }
    }
  }

  // Whether something of a piece that has begun was left to ask for.
  bool ask_next(bool read) {
    for (std::size_t i = 0; i < lane(read).slots.size();) {
      const std::size_t slot = lane(read).slots[i];
      if (ask(slot)) return true;
      if (slots_[slot].piece) ++i;  // else it is over
    }
    return false;
  }

  bool begin_next(bool read) {
    const auto slot = std::find_if(slots_.begin(), slots_.end(), [](const Slot& each) { return !each.piece; });
    if (slot == slots_.end()) return false;
    const std::optional<Request> request = next_request(read);
    if (!request) return false;
    const auto index = static_cast<std::size_t>(slot - slots_.begin());
    slot->event = request->event;
    slot->piece.emplace(moving(room_, *request, static_cast<int>(index)));
    lane(read).slots.push_back(index);
    return true;
  }

  bool ask(std::size_t index) {
    Slot& slot = slots_[index];
    std::optional<MovingPiece::Blocks> blocks;
    work_on(slot, [&] { blocks = slot.piece->next(); });
    if (blocks) {
      submit(index, *blocks);
      slot.piece->meanwhile();
    } else {
      settle(index);
    }
    return blocks.has_value();
  }

  // One that has failed waits for what the disk is still at in its memory, and asks for nothing more.
  template <class Work>
  void work_on(Slot& slot, const Work& work) {
    if (slot.error) return;
    try {
      work();
    } catch (const Error& caught) {
      slot.error = caught;
    } catch (const std::exception& caught) {
      slot.error = slot.piece->failure(caught.what());
    }
  }

  void take(std::uint64_t number, int moved) {
    Question& question = questions_[number];
    Slot& slot = slots_[question.slot];
    lane(slot.piece->reads()).asked -= question.bytes;
    question.bytes = 0;
    --under_way_;
    --slot.asked;
    if (stopping()) return;  // nobody waits for it any more
    work_on(slot, [&] { slot.piece->moved(question.part, moved); });
    settle(question.slot);
  }

  void settle(std::size_t index) {
    Slot& slot = slots_[index];
    if (slot.asked > 0 || !(slot.error || slot.piece->over())) return;
    std::deque<std::size_t>& slots = lane(slot.piece->reads()).slots;
    slots.erase(std::find(slots.begin(), slots.end(), index));
    finish(slot, std::exchange(slot.error, std::nullopt));
  }

  Lane& lane(bool read) { return lanes_[read ? 1 : 0]; }

  bool stopping() {
    const std::lock_guard lock(mutex_);
    return stop_;
  }

  void submit(std::size_t index, const MovingPiece::Blocks& blocks) {
    Slot& slot = slots_[index];
    const auto question =
        std::find_if(questions_.begin(), questions_.end(), [](const Question& each) { return each.bytes == 0; });
    *question = {index, blocks.memory.size(), blocks.part};
    lane(slot.piece->reads()).asked += question->bytes;
    ++under_way_;
    ++slot.asked;
    io_uring_sqe* entry = ::io_uring_get_sqe(ring_.get());
    const auto bytes = static_cast<unsigned>(blocks.memory.size());
    const auto offset = static_cast<std::uint64_t>(blocks.offset);
    if (slot.piece->reads()) {
      ::io_uring_prep_read(entry, room_.file.fd(), blocks.memory.data(), bytes, offset);
    } else {
      ::io_uring_prep_write(entry, room_.file.fd(), blocks.memory.data(), bytes, offset);
    }
    ::io_uring_sqe_set_data64(entry, static_cast<std::uint64_t>(question - questions_.begin()));
    ::io_uring_submit(ring_.get());  // the disk works while the part before is summed; what fails here fails again at the wait
  }

  void finish(Slot& slot, std::optional<Error> error) {
    slot.piece.reset();
    room_.over(slot.event, std::move(error));
  }

  // The ring is of no use any more: all that is under way and all that comes has failed. The disk may still be at the staging and
  // at memory of the caller's, which both live longer than the ring.
  void refuse_all(int error) {
    const Error refused = no_ring(error);
    for (Slot& slot : slots_) {
      if (slot.piece) finish(slot, refused);
    }
    while (!stopping()) {
      for (const bool read : {true, false}) {
        while (const std::optional<Request> request = next_request(read)) room_.over(request->event, refused);
      }
      wake_.clear();
    }
  }

  Room room_;
  Ring ring_;
  Wake wake_;
  std::vector<Slot> slots_;
  std::vector<Question> questions_;
  std::array<Lane, 2> lanes_;                 // out, in
  int under_way_ = 0;                         // questions
  std::mutex mutex_;                          // of these two
  std::array<std::deque<Request>, 2> queue_;  // out, in
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
                   {"--set plan.transfers=threads"});
}

std::string io_uring_refusal() { return "liburing was not there when Plimsoll was built"; }

}  // namespace plimsoll

#endif
