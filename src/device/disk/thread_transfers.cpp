// One thread for each staging buffer, each with a piece at a time.

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "device/disk/transfers.h"

namespace plimsoll {
namespace {

class ThreadTransfers final : public Transfers {
 public:
  explicit ThreadTransfers(Room room) : room_(std::move(room)) {
    try {
      for (int slot = 0; slot < room_.slots; ++slot) {
        workers_.threads.emplace_back([this, slot] { work(slot); });
      }
    } catch (const std::system_error& error) {
      throw no_thread(error.what());
    }
  }

  void start(const Request& request) override {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(request);
    }
    wake_.notify_one();
  }

 private:
  // Ends those that have started also where the constructor throws after it.
  struct Workers {
    ThreadTransfers& transfers;
    std::vector<std::thread> threads;
    ~Workers() {
      {
        const std::lock_guard lock(transfers.mutex_);
        transfers.stop_ = true;
        transfers.queue_.clear();
      }
      transfers.wake_.notify_all();
      for (std::thread& thread : threads) thread.join();
    }
  };

  void work(int slot) {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return stop_ || !queue_.empty(); });
      if (stop_) return;
      const Request request = queue_.front();
      queue_.pop_front();
      lock.unlock();
      room_.over(request.event, run(request, slot));
      lock.lock();
    }
  }

  std::optional<Error> run(const Request& request, int slot) {
    MovingPiece piece = moving(room_, request, slot);
    try {
      move_now(room_.file, piece);
    } catch (const Error& error) {
      return error;
    } catch (const std::exception& error) {
      return piece.failure(error.what());
    }
    return {};
  }

  Room room_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Request> queue_;
  bool stop_ = false;
  Workers workers_{*this, {}};  // last: they use all of the above
};

}  // namespace

std::unique_ptr<Transfers> make_thread_transfers(Transfers::Room room) {
  return std::make_unique<ThreadTransfers>(std::move(room));
}

}  // namespace plimsoll
