#include "data/prefetch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/bytes.h"

namespace plimsoll {
namespace {

// Drops the pages that these samples lie on. Samples of one run of the file cost one call; scattered ones drop the whole file,
// which costs what is cached and not what the file is long.
void drop_behind(const TokenFile& source, const Samples& samples, std::span<const SampleRef> refs) {
  const auto next = [](SampleRef a, SampleRef b) { return b.sample != a.sample + 1; };
  const bool one_run = std::ranges::adjacent_find(refs, next) == refs.end();
  if (refs.empty() || !one_run) {
    for (const TokenPart& part : source.parts) ::posix_fadvise(part.file.fd(), 0, 0, POSIX_FADV_DONTNEED);
    return;
  }
  const std::int64_t first = samples.first_token(refs.front().sample);
  const std::int64_t last = samples.first_token(refs.back().sample) + samples.length(refs.back().sample);
  std::int64_t before = 0;
  for (const TokenPart& part : source.parts) {
    const auto place = [&](std::int64_t token) {
      const std::int64_t within = std::clamp<std::int64_t>(token - before, 0, part.tokens);
      return (part.offset + within * source.bytes_per_token) / kPage.n * kPage.n;
    };
    const std::int64_t begin = place(first), end = place(last);
    if (end > begin) ::posix_fadvise(part.file.fd(), begin, end - begin, POSIX_FADV_DONTNEED);
    before += part.tokens;
  }
}

}  // namespace

Prefetcher::Prefetcher(const TokenFile& source, const Samples& samples, std::int64_t micro_batch,
                       std::array<std::span<std::byte>, kDepth> staging)
    : source_(source), samples_(samples) {
  const std::int64_t bytes = staging_bytes(micro_batch, samples.context, source.bytes_per_token);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    ensure(std::ssize(staging[i]) >= bytes, "Prefetcher", "a staging buffer is too small");
    slots_[i].staging = staging[i];
    slots_[i].refs.reserve(static_cast<std::size_t>(micro_batch));
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

// std::thread cannot be told how large a stack to take.
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
    throw data_error("E-DATA-THREAD", source_.name,
                     fmt::format("no thread to read it could be started: {}", std::strerror(error)));
  }
}

void* Prefetcher::enter(void* self) {
  // Best effort: where the priority cannot be lowered, reading ahead still works.
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 19);
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
  try {
    read_samples(source_, samples_, slot.refs, slot.staging);
    drop_behind(source_, samples_, slot.refs);
  } catch (const Error& error) {
    slot.error = error;
  } catch (const std::exception& error) {
    slot.error = internal_error("Prefetcher", error.what());
  }
}

void Prefetcher::submit(std::span<const SampleRef> refs) {
  ensure(pending() < kDepth, "Prefetcher::submit", "both staging buffers are in use");
  Slot& next = slot(submitted_);
  ensure(refs.size() <= next.refs.capacity(), "Prefetcher::submit", "more samples than a micro-batch has");
  next.refs.assign(refs.begin(), refs.end());
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
  done_.wait(lock, [this] { return read_ > taken_; });
  return slot(taken_);
}

void Prefetcher::take(const MicroBatch& out) {
  Slot& oldest = wait_for_oldest();
  // Counted first: a micro-batch that fails is spent, too.
  ++taken_;
  if (oldest.error) throw Error(*oldest.error);
  unpack_samples(source_, samples_, oldest.refs, oldest.staging, out);
}

void Prefetcher::discard() {
  while (pending() > 0) {
    wait_for_oldest();
    ++taken_;
  }
}

}  // namespace plimsoll
