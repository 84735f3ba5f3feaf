#include "data/prefetch.h"

#include <fmt/core.h>
#include <signal.h>

#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/memory_limit.h"

namespace plimsoll {
Prefetcher::Prefetcher(const SampleSource& source, std::string name, std::int64_t rows,
                       std::array<std::span<std::byte>, kDepth> staging)
    : source_(source), name_(std::move(name)) {
  const std::int64_t bytes = source.staging_bytes(rows);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    ensure(std::ssize(staging[i]) >= bytes, "Prefetcher", "a staging buffer is too small");
    slots_[i].staging = staging[i];
    slots_[i].samples.reserve(static_cast<std::size_t>(rows));
  }
  start_thread();
}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_one();
  pthread_join(thread_, nullptr);
}

// std::thread has no setting for the size of its stack.
void Prefetcher::start_thread() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  sigset_t all, before;
  sigfillset(&all);
  // Signals are for the thread that trains; a new thread inherits the mask.
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(&thread_, &attributes, &Prefetcher::enter, this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (error != 0) {
    if (MemoryLimit::holds()) throw MemoryLimit::passed();  // the limit counts stacks
    throw data_error("E-DATA-THREAD", name_, fmt::format("no thread to read it could be started: {}", std::strerror(error)));
  }
}

void* Prefetcher::enter(void* self) {
  static_cast<Prefetcher*>(self)->serve();
  return nullptr;
}

void Prefetcher::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return stop_ || read_ < submitted_; });
    if (stop_) return;
    Slot& current = slot(read_);
    lock.unlock();
    read(current);
    lock.lock();
    ++read_;
    done_.notify_one();
  }
}

void Prefetcher::read(Slot& slot) {
  slot.begin = seconds_now();
  try {
    source_.read(slot.samples, slot.staging);
    source_.drop(slot.samples);
  } catch (const Error& error) {
    slot.error = error;
  } catch (const std::exception& error) {
    slot.error = internal_error("Prefetcher", error.what());
  }
  slot.end = seconds_now();
}

void Prefetcher::submit(std::span<const PlacedSample> samples) {
  ensure(pending() < kDepth, "Prefetcher::submit", "both staging buffers are in use");
  Slot& next = slot(submitted_);
  next.samples.assign(samples.begin(), samples.end());
  next.error.reset();
  {
    const std::lock_guard lock(mutex_);
    ++submitted_;
  }
  work_.notify_one();
}

Prefetcher::Slot& Prefetcher::wait_for_oldest() {
  ensure(pending() > 0, "Prefetcher::take", "nothing was submitted");
  std::unique_lock lock(mutex_);
  const auto is_read = [this] { return read_ > taken_; };
  if (!is_read()) {
    const double start = seconds_now();
    done_.wait(lock, is_read);
    waited_ += seconds_now() - start;
  }
  return slot(taken_);
}

void Prefetcher::take(std::span<const FieldBuffer> fields) {
  const double before = waited_;
  Slot& oldest = wait_for_oldest();
  reading_ = {oldest.begin, oldest.end, waited_ - before};
  // Counted first, because a failed micro-batch is consumed, too.
  ++taken_;
  if (oldest.error) throw Error(*oldest.error);
  source_.fill(oldest.samples, oldest.staging, fields);
}

void Prefetcher::discard() {
  while (pending() > 0) {
    wait_for_oldest();
    ++taken_;
  }
}

}  // namespace plimsoll
