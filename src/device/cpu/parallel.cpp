#include "device/cpu/parallel.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

#include <atomic>

#ifdef PLIMSOLL_STD_THREADS
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>
#else
#include <omp.h>
#endif

namespace plimsoll::cpu {
namespace {

// Numbers below 2^-126 become zero. Probabilities and second moments reach that range, in which Intel cores are a hundred times
// slower. The mode belongs to a thread; a thread that starts later inherits it.
void flush_denormals() {
#if defined(__SSE2__)
  constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;
  _mm_setcsr(_mm_getcsr() | kFlushToZero | kDenormalsAreZero);
#elif defined(__aarch64__)
  constexpr std::uint64_t kFlushToZero = 1 << 24;
  std::uint64_t mode = 0;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  asm volatile("msr fpcr, %0" ::"r"(mode | kFlushToZero));
#endif
}

}  // namespace

#ifdef PLIMSOLL_STD_THREADS

namespace {

class Pool {
 public:
  ~Pool() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    start_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  void resize(int threads) {
    // A new worker takes no part in earlier rounds.
    while (static_cast<int>(workers_.size()) + 1 < threads) workers_.emplace_back([this, seen = round_] { work(seen); });
    threads_ = threads;
  }

  int threads() const { return threads_; }

  void run(std::int64_t tasks, detail::TaskFunction function, void* context) {
    {
      const std::lock_guard lock(mutex_);
      tasks_ = tasks;
      function_ = function;
      context_ = context;
      next_ = 0;
      busy_ = workers_.size();
      ++round_;
    }
    start_.notify_all();
    drain();
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return busy_ == 0; });
  }

 private:
  void drain() {
    for (std::int64_t task = next_++; task < tasks_; task = next_++) function_(context_, task);
  }

  void work(std::uint64_t seen) {
    flush_denormals();
    std::unique_lock lock(mutex_);
    while (true) {
      start_.wait(lock, [&] { return stop_ || round_ != seen; });
      if (stop_) return;
      seen = round_;
      lock.unlock();
      drain();
      lock.lock();
      if (--busy_ == 0) done_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable start_, done_;
  std::vector<std::thread> workers_;
  int threads_ = 1;
  bool stop_ = false;
  std::uint64_t round_ = 0;
  std::size_t busy_ = 0;
  std::int64_t tasks_ = 0;
  std::atomic<std::int64_t> next_ = 0;
  detail::TaskFunction function_ = nullptr;
  void* context_ = nullptr;
};

Pool& pool() {
  static Pool instance;
  return instance;
}

}  // namespace

int thread_count() { return pool().threads(); }
void set_thread_count(int threads) {
  flush_denormals();
  pool().resize(threads);
}

void detail::run_tasks(std::int64_t tasks, TaskFunction function, void* context) {
  flush_denormals();
  if (tasks <= 1 || pool().threads() == 1) {
    for (std::int64_t task = 0; task < tasks; ++task) function(context, task);
    return;
  }
  pool().run(tasks, function, context);
}

#else

int thread_count() { return omp_get_max_threads(); }
void set_thread_count(int threads) {
  flush_denormals();
  omp_set_num_threads(threads);
}

void detail::run_tasks(std::int64_t tasks, TaskFunction function, void* context) {
  flush_denormals();
  if (tasks <= 1) {
    if (tasks == 1) function(context, 0);
    return;
  }
  // A counter of our own costs one barrier; an OpenMP loop has two, and generation runs hundreds of loops per token.
  std::atomic<std::int64_t> next{0};
#pragma omp parallel
  {
    flush_denormals();
    for (std::int64_t task = next++; task < tasks; task = next++) function(context, task);
  }
}

#endif

}  // namespace plimsoll::cpu
