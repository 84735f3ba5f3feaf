// The thread that calls MPI. It starts the transfers of exchanges, and sleeps between looks at them. Each second it sends a
// heartbeat to the others, whatever the rest of the process does. No other thread calls MPI.
#pragma once

#include <mpi.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "collective/peers.h"

namespace plimsoll {

class MpiEngine {
 public:
  // Starts the thread and returns when all processes have joined.
  static MpiEngine& start();

  int rank() const { return rank_; }
  int count() const { return count_; }
  void reserve(std::uint32_t events, std::size_t parts);
  void post(std::uint32_t event, const Peers::Exchange& exchange);
  // Returns when the exchange is over. Throws the error that ended the work. After `seconds` (0: never) returns the first rank
  // that has not answered; if patient, the first awaited rank without a heartbeat for so long.
  std::optional<int> wait(std::uint32_t event, double seconds, bool patient);
  // Tells all other ranks.
  void fail(const Error& error);
  bool failed();
  Bytes sent() const { return sent_; }
  // Leaves MPI. After a failure, other ranks may be gone: waits a few seconds at most.
  void leave();

 private:
  static constexpr std::size_t kMostText = 16 << 10;                        // bytes of an error
  static constexpr int kParts = 0, kErrors = 1, kHeartbeat = 2;             // tags
  static constexpr double kBetweenHeartbeats = 1, kMostBetweenLooks = 0.5;  // seconds

  struct Slot {
    Peers::Exchange exchange;
    std::size_t open = 0;  // parts in flight
    double began = 0;      // seconds_now()
  };
  struct Part {
    std::uint32_t event = 0;
    int peer = 0;
    bool receives = false;
    std::byte* data = nullptr;  // only read by a send
    int bytes = 0;
  };

  MpiEngine() = default;
  void work();
  std::size_t take_queued();
  void start_parts(std::size_t first);
  void look();
  void look_for_errors();
  void send_error();
  void set_error(const Error& error);
  void finish(std::size_t part, const MPI_Status& status);
  double pause() const;
  void send_heartbeat();
  void take_heartbeats();
  std::optional<int> without_heartbeat(std::uint32_t event, double seconds) const;

  int rank_ = 0, count_ = 1;
  bool joined_ = false, leaving_ = false, left_ = false, tells_ = false;
  std::mutex mutex_;
  std::condition_variable for_engine_, for_caller_;
  std::vector<Slot> slots_;            // by event
  std::vector<std::uint32_t> queue_;   // posted, not started
  std::vector<MPI_Request> requests_;  // in flight, and their parts
  std::vector<Part> parts_;
  std::vector<int> done_;
  std::vector<MPI_Status> statuses_;
  std::optional<Error> error_;
  std::string text_;  // of the error that this rank tells
  std::vector<char> inbox_;
  MPI_Request inbox_request_ = MPI_REQUEST_NULL, heartbeat_request_ = MPI_REQUEST_NULL;
  std::vector<MPI_Request> heartbeats_;  // of this rank, in flight, by receiver
  std::vector<double> seen_;             // seconds_now() of the last heartbeat, by sender
  double next_heartbeat_ = 0, last_look_ = 0;
  Bytes sent_;
};

}  // namespace plimsoll
