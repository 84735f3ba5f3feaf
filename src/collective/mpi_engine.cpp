#include "collective/mpi_engine.h"

#include <fmt/core.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/error_text.h"

namespace plimsoll {
namespace {

constexpr double kMostSecondsToTell = 1, kMostSecondsToLeave = 2;

// Signals are for the thread that trains: threads inherit the mask.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_{};
};

// Transports that take no memory of their own for each peer, unless the user chose others. A thread of MPI that waits yields.
void choose_transports() {
  ::setenv("OMPI_MCA_pml", "^ucx,cm", 0);
  ::setenv("OMPI_MCA_btl", "self,vader,tcp", 0);
  // On one connection the answer to a large message waits behind a large message of the other direction, and the two take turns.
  ::setenv("OMPI_MCA_btl_tcp_links", "2", 0);
  ::setenv("OMPI_MCA_osc", "^ucx", 0);
  ::setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
}

Error lost(int rank, int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return {ErrorKind::environment,
          ExitCode::interrupted,
          "E-RANK-LOST",
          fmt::format("rank {}", rank),
          fmt::format("the connection to it failed: {}", std::string(text.data(), static_cast<std::size_t>(length))),
          "a process and a network that last to the end"};
}

}  // namespace

MpiEngine& MpiEngine::start() {
  auto* engine = new MpiEngine;  // lives as long as the process: its thread may wait for ranks that are gone
  {
    const BlockedSignals blocked;
    std::thread([engine] { engine->work(); }).detach();
  }
  std::unique_lock lock(engine->mutex_);
  engine->for_caller_.wait(lock, [&] { return engine->joined_; });
  return *engine;
}

void MpiEngine::reserve(std::uint32_t events, std::size_t parts) {
  const std::lock_guard lock(mutex_);
  slots_.resize(std::max<std::size_t>(slots_.size(), events));
  const std::size_t most = slots_.size() * parts;
  queue_.reserve(slots_.size());
  requests_.reserve(most);
  parts_.reserve(most);
  done_.resize(std::max(done_.size(), most));
  statuses_.resize(std::max(statuses_.size(), most));
}

void MpiEngine::post(std::uint32_t event, const Peers::Exchange& exchange) {
  const std::lock_guard lock(mutex_);
  ensure(event < slots_.size() && slots_[event].open == 0, "peers", "no room for this event, or it is in use");
  slots_[event] = {exchange, exchange.sends.size() + exchange.receives.size(), seconds_now()};
  if (slots_[event].open == 0) return;
  queue_.push_back(event);
  for (const Peers::Send& send : exchange.sends) sent_ += Bytes{static_cast<std::int64_t>(send.bytes.size())};
  for_engine_.notify_one();
}

std::optional<int> MpiEngine::wait(std::uint32_t event, double seconds, bool patient) {
  std::unique_lock lock(mutex_);
  const auto over = [&] { return slots_[event].open == 0 || error_; };
  if (seconds <= 0) {
    for_caller_.wait(lock, over);
  } else if (patient) {
    const double look = std::min(seconds, kBetweenHeartbeats);
    while (!for_caller_.wait_for(lock, std::chrono::duration<double>(look), over)) {
      if (const std::optional<int> rank = without_heartbeat(event, seconds)) return rank;
    }
  } else if (!for_caller_.wait_for(lock, std::chrono::duration<double>(seconds), over)) {
    const auto part = std::ranges::find(parts_, event, &Part::event);
    return part != parts_.end() ? part->peer : rank_;
  }
  if (error_) throw Error(*error_);
  return {};
}

// A process that was stopped itself, and goes on, has seen nothing meanwhile: heartbeats that have arrived count first.
std::optional<int> MpiEngine::without_heartbeat(std::uint32_t event, double seconds) const {
  const double now = seconds_now();
  if (now - last_look_ > kMostBetweenLooks) return {};
  for (const Part& part : parts_) {
    if (part.event == event && now - seen_[static_cast<std::size_t>(part.peer)] > seconds) return part.peer;
  }
  return {};
}

void MpiEngine::set_error(const Error& error) {
  if (!error_) error_.emplace(error);
  for_caller_.notify_all();
}

void MpiEngine::fail(const Error& error) {
  std::unique_lock lock(mutex_);
  if (error_ || left_) return;
  Error shown = error;
  for (std::string* text : {&shown.where, &shown.message, &shown.expected})
    text->resize(std::min<std::size_t>(text->size(), 3000));
  text_ = plimsoll::text_of(shown);
  if (text_.size() > kMostText) {
    shown.remedies.clear();
    text_ = plimsoll::text_of(shown).substr(0, kMostText);
  }
  set_error(error);
  tells_ = true;
  for_engine_.notify_one();
  for_caller_.wait_for(lock, std::chrono::duration<double>(kMostSecondsToTell), [&] { return !tells_; });
}

bool MpiEngine::failed() {
  const std::lock_guard lock(mutex_);
  return error_.has_value();
}

void MpiEngine::leave() {
  std::unique_lock lock(mutex_);
  leaving_ = true;
  for_engine_.notify_one();
  const auto gone = [&] { return left_; };
  if (error_) {
    for_caller_.wait_for(lock, std::chrono::duration<double>(kMostSecondsToLeave), gone);
  } else {
    for_caller_.wait(lock, gone);
  }
}

// ---- the thread of MPI ----

void MpiEngine::work() {
  choose_transports();
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &count_);
  inbox_.resize(kMostText);
  if (count_ > 1) {
    MPI_Irecv(inbox_.data(), static_cast<int>(kMostText), MPI_BYTE, MPI_ANY_SOURCE, kErrors, MPI_COMM_WORLD, &inbox_request_);
    MPI_Irecv(nullptr, 0, MPI_BYTE, MPI_ANY_SOURCE, kHeartbeat, MPI_COMM_WORLD, &heartbeat_request_);
  }
  heartbeats_.resize(static_cast<std::size_t>(count_), MPI_REQUEST_NULL);
  seen_.resize(static_cast<std::size_t>(count_), seconds_now());
  next_heartbeat_ = last_look_ = seconds_now();
  std::unique_lock lock(mutex_);
  joined_ = true;
  for_caller_.notify_all();
  while (true) {
    const bool idle = queue_.empty() && requests_.empty() && !tells_;
    if (idle && leaving_) break;
    if (leaving_ && error_ && !tells_) break;  // transfers to ranks that are gone
    const double until_heartbeat = next_heartbeat_ - seconds_now();
    if (idle && (count_ == 1 || until_heartbeat > 0)) {
      count_ == 1 ? for_engine_.wait(lock) : void(for_engine_.wait_for(lock, std::chrono::duration<double>(until_heartbeat)));
      continue;
    }
    const std::size_t first = take_queued();
    const bool tells = tells_, beats = until_heartbeat <= 0 && !leaving_ && !error_;
    lock.unlock();
    start_parts(first);
    if (beats) send_heartbeat();
    take_heartbeats();
    for (int i = 0; i < 4; ++i) look();
    look_for_errors();
    if (tells) send_error();
    lock.lock();
    if (!requests_.empty() && queue_.empty() && !tells_ && !leaving_) {
      for_engine_.wait_for(lock, std::chrono::duration<double>(pause()));
    }
  }
  const bool failed = error_.has_value();
  lock.unlock();
  for (MPI_Request* request : {&inbox_request_, &heartbeat_request_}) {
    if (*request == MPI_REQUEST_NULL) continue;
    MPI_Cancel(request);
    if (!failed) MPI_Wait(request, MPI_STATUS_IGNORE);
  }
  MPI_Finalize();
  lock.lock();
  left_ = true;
  for_caller_.notify_all();
}

// Called with the lock. Returns the index of the first new part.
std::size_t MpiEngine::take_queued() {
  const std::size_t first = parts_.size();
  for (const std::uint32_t event : queue_) {
    const Peers::Exchange& exchange = slots_[event].exchange;
    for (const Peers::Receive& part : exchange.receives) {
      parts_.push_back({event, part.from, true, part.bytes.data(), static_cast<int>(part.bytes.size())});
    }
    for (const Peers::Send& part : exchange.sends) {
      parts_.push_back({event, part.to, false, const_cast<std::byte*>(part.bytes.data()), static_cast<int>(part.bytes.size())});
    }
  }
  requests_.resize(parts_.size(), MPI_REQUEST_NULL);
  queue_.clear();
  return first;
}

// Called without the lock, since MPI may move a whole part here.
void MpiEngine::start_parts(std::size_t first) {
  for (std::size_t i = first; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    const int code = part.receives ? MPI_Irecv(part.data, part.bytes, MPI_BYTE, part.peer, kParts, MPI_COMM_WORLD, &requests_[i])
                                   : MPI_Isend(part.data, part.bytes, MPI_BYTE, part.peer, kParts, MPI_COMM_WORLD, &requests_[i]);
    if (code == MPI_SUCCESS) continue;
    const std::lock_guard lock(mutex_);
    set_error(lost(part.peer, code));
  }
}

// Other threads read the parts under the lock, and only this one changes them.
void MpiEngine::look() {
  if (requests_.empty()) return;
  int done = 0;
  MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &done, done_.data(), statuses_.data());
  if (done <= 0) return;  // none, or MPI_UNDEFINED: no active request
  const std::lock_guard lock(mutex_);
  for (int i = 0; i < done; ++i) {
    finish(static_cast<std::size_t>(done_[static_cast<std::size_t>(i)]), statuses_[static_cast<std::size_t>(i)]);
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    requests_[kept] = requests_[i];
    parts_[kept++] = parts_[i];
  }
  requests_.resize(kept);
  parts_.resize(kept);
  for_caller_.notify_all();
}

void MpiEngine::finish(std::size_t index, const MPI_Status& status) {
  const Part& part = parts_[index];
  if (status.MPI_ERROR == MPI_ERR_TRUNCATE) return set_error(internal_error("peers", "the two ends of a part differ in size"));
  if (status.MPI_ERROR != MPI_SUCCESS && status.MPI_ERROR != MPI_ERR_PENDING) return set_error(lost(part.peer, status.MPI_ERROR));
  int bytes = part.bytes;
  if (part.receives) MPI_Get_count(&status, MPI_BYTE, &bytes);
  if (bytes != part.bytes) return set_error(internal_error("peers", "the two ends of a part differ in size"));
  --slots_[part.event].open;
}

void MpiEngine::look_for_errors() {
  if (inbox_request_ == MPI_REQUEST_NULL) return;
  int there = 0, bytes = 0;
  MPI_Status status;
  if (MPI_Test(&inbox_request_, &there, &status) != MPI_SUCCESS || there == 0) return;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  std::optional<Error> error = error_from(std::string(inbox_.data(), static_cast<std::size_t>(std::max(0, bytes))));
  if (!error) error = internal_error("peers", "the report of an error is cut off");
  if (!error->where.starts_with("rank ")) error->where = fmt::format("rank {}: {}", status.MPI_SOURCE, error->where);
  const std::lock_guard lock(mutex_);
  set_error(Error(error->kind, error->exit, error->code, error->where, error->message, error->expected, error->remedies));
}

// A message without bytes. A rank that has not taken the last one gets no other.
void MpiEngine::send_heartbeat() {
  next_heartbeat_ = seconds_now() + kBetweenHeartbeats;
  for (int rank = 0; rank < count_; ++rank) {
    MPI_Request& heartbeat = heartbeats_[static_cast<std::size_t>(rank)];
    int taken = 1;
    if (heartbeat != MPI_REQUEST_NULL) MPI_Test(&heartbeat, &taken, MPI_STATUS_IGNORE);
    if (rank != rank_ && taken != 0) MPI_Isend(nullptr, 0, MPI_BYTE, rank, kHeartbeat, MPI_COMM_WORLD, &heartbeat);
  }
}

void MpiEngine::take_heartbeats() {
  if (heartbeat_request_ == MPI_REQUEST_NULL) return;
  int there = 0;
  MPI_Status status;
  while (MPI_Test(&heartbeat_request_, &there, &status) == MPI_SUCCESS && there != 0) {
    {
      const std::lock_guard lock(mutex_);
      seen_[static_cast<std::size_t>(status.MPI_SOURCE)] = seconds_now();
    }
    MPI_Irecv(nullptr, 0, MPI_BYTE, MPI_ANY_SOURCE, kHeartbeat, MPI_COMM_WORLD, &heartbeat_request_);
  }
  const std::lock_guard lock(mutex_);
  last_look_ = seconds_now();
}

// Ranks that are gone take no message.
void MpiEngine::send_error() {
  std::vector<MPI_Request> sends(static_cast<std::size_t>(count_), MPI_REQUEST_NULL);
  for (int rank = 0; rank < count_; ++rank) {
    if (rank == rank_) continue;
    MPI_Isend(text_.data(), static_cast<int>(text_.size()), MPI_BYTE, rank, kErrors, MPI_COMM_WORLD,
              &sends[static_cast<std::size_t>(rank)]);
  }
  const double end = seconds_now() + kMostSecondsToTell;
  for (int all = 0; all == 0 && seconds_now() < end;) {
    MPI_Testall(count_, sends.data(), &all, MPI_STATUSES_IGNORE);
    if (all == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const std::lock_guard lock(mutex_);
  tells_ = false;
  for_caller_.notify_all();
}

// Seconds until the next look: a sixteenth of the time that the oldest transfer has taken.
double MpiEngine::pause() const {
  constexpr double kLeast = 20e-6, kMost = 2e-3;
  const double now = seconds_now();
  double oldest = 0;
  for (const Part& part : parts_) oldest = std::max(oldest, now - slots_[part.event].began);
  return std::clamp(oldest / 16, kLeast, kMost);
}

}  // namespace plimsoll
