// One thread for each staging buffer; a thread moves one piece at a time.

#include <condition_variable>
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
  explicit ThreadTransfers(Room room) : room_(std::move(room)), waiting_(room_.slots) {
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
      waiting_.add(request);
    }
    wake_.notify_one();
  }

 private:
  // Ends the started threads, also if the constructor throws.
  struct Workers {
    ThreadTransfers& transfers;
    std::vector<std::thread> threads;
    ~Workers() {
      {
        const std::lock_guard lock(transfers.mutex_);
        transfers.stop_ = true;
        transfers.waiting_.drop();
      }
      transfers.wake_.notify_all();
      for (std::thread& thread : threads) thread.join();
    }
  };

  void work(int slot) {
    std::unique_lock lock(mutex_);
    while (true) {
      std::optional<Request> request;
      wake_.wait(lock, [&] { return stop_ || (request = waiting_.take()); });
      if (stop_) return;
      lock.unlock();
      room_.over(request->event, run(*request, slot));
      lock.lock();
      waiting_.give_back(request->read);
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
  WaitingTransfers waiting_;
  bool stop_ = false;
  Workers workers_{*this, {}};  // last: they use all of the above
};

}  // namespace

std::unique_ptr<Transfers> make_thread_transfers(Transfers::Room room) {
  return std::make_unique<ThreadTransfers>(std::move(room));
}

}  // namespace plimsoll
