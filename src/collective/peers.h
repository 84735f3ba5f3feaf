// The processes that train together, one for each rank. Transfers between them run next to the kernels. Each exchange has the
// number of an event, on which the caller waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/error.h"

namespace plimsoll {

class Peers {
 public:
  struct Send {
    int to = 0;
    std::span<const std::byte> bytes;
  };
  struct Receive {
    int from = 0;
    std::span<std::byte> bytes;
  };
  // The transfers of this rank that begin at once. Between two ranks, the n-th sent part is the n-th received one, over all
  // exchanges in the order of their starts, and of the same size. A part of no bytes counts. No rank sends to itself.
  struct Exchange {
    std::span<const Send> sends;
    std::span<const Receive> receives;
  };
  static constexpr Bytes kMostBytes{std::int64_t{1} << 30};  // of a part

  virtual ~Peers() = default;

  virtual int rank() const = 0;
  virtual int count() const = 0;
  // The host of a rank, for messages.
  virtual std::string host(int rank) const = 0;

  // Waits longer than this are E-RANK-LOST; 0, as at first: none are. A patient rank waits as long as the others live: a rank
  // without a heartbeat for this time is lost.
  virtual void limit(double seconds, bool patient) = 0;

  // Makes room for events [0, `events`) with at most `parts` sends and receives each. Called while nothing is in flight. The
  // other members allocate nothing.
  virtual void reserve(std::uint32_t events, std::size_t parts) = 0;
  // Starts an exchange. The lists and all memory stay untouched until `wait` returns.
  virtual void start(std::uint32_t event, const Exchange& exchange) = 0;
  // Returns when the exchange of this event is over. Throws the error of another rank that failed, or E-RANK-LOST (exit 6) if a
  // rank does not answer.
  virtual void wait(std::uint32_t event) = 0;

  // Ends the work of all ranks: from now on, their waits throw this error. The first error of all ranks counts.
  virtual void fail(const Error& error) = 0;
  // Bytes of all sent parts until now.
  virtual Bytes sent() const = 0;
};

}  // namespace plimsoll
