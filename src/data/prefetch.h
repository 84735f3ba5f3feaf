// Reads micro-batches ahead: a thread fills one of two staging buffers while the other one is unpacked. It has the priority of
// the process: the consumer waits for it, so with a lower one other programs would stop the training. The consumer names the next
// samples, so results never depend on timing. After construction only two things allocate: errors, and a micro-batch with more
// samples than rows and than any before it. Data are dropped from the page cache after reading, because the cache counts against
// a container's limit.
#pragma once

#include <pthread.h>

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/sample_source.h"

namespace plimsoll {

class Prefetcher {
 public:
  static constexpr std::int64_t kDepth = 2;
  static constexpr std::int64_t kStackBytes = 256 << 10;

  // `source` must outlive this. `name`: of the source, for messages. `rows`: of a micro-batch. Each staging buffer has at least
  // source.staging_bytes(rows).
  Prefetcher(const SampleSource& source, std::string name, std::int64_t rows, std::array<std::span<std::byte>, kDepth> staging);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Micro-batches submitted and not yet taken, 0 to kDepth.
  std::int64_t pending() const { return submitted_ - taken_; }
  // Starts reading these samples; pending() must be below kDepth.
  void submit(std::span<const PlacedSample> samples);
  // Waits for the oldest submitted micro-batch and fills the fields of a pass with it. Throws its error; the next micro-batch is
  // not affected.
  void take(std::span<const FieldBuffer> fields);
  // Seconds for which take() has waited so far.
  double waited() const { return waited_; }
  // The clock at the begin and the end of the reading of the micro-batch that take() gave last, and the seconds of that wait.
  struct Reading {
    double begin = 0, end = 0, waited = 0;
  };
  const Reading& reading() const { return reading_; }
  // Waits for all pending micro-batches and drops them, for a move to another position.
  void discard();

 private:
  struct Slot {
    std::span<std::byte> staging;
    std::vector<PlacedSample> samples;
    std::optional<Error> error;
    double begin = 0, end = 0;  // clock of the reading
  };

  static void* enter(void* self);
  void start_thread();
  void serve();
  void read(Slot& slot);
  Slot& wait_for_oldest();
  Slot& slot(std::int64_t number) { return slots_[static_cast<std::size_t>(number % kDepth)]; }

  const SampleSource& source_;
  std::string name_;
  std::array<Slot, kDepth> slots_;
  std::int64_t submitted_ = 0;  // written by the consumer under the mutex
  std::int64_t taken_ = 0;      // used by the consumer only
  double waited_ = 0;           // likewise
  Reading reading_;             // likewise
  std::int64_t read_ = 0;       // written by the thread under the mutex
  bool stop_ = false;
  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable done_;
  pthread_t thread_{};
};

}  // namespace plimsoll
