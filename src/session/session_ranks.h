// A session beside those of other ranks. All of them take the same decisions; the first alone writes the files of the run. In a
// process that trains alone, every call runs its work here.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "collective/gather.h"
#include "collective/peers.h"
#include "collective/together.h"
#include "prepare/prepare.h"
#include "program/program.h"
#include "records/run_report.h"
#include "run/executor.h"

namespace plimsoll {

class SessionRanks {
 public:
  // `peers`: null in a process that trains alone. It outlives this.
  explicit SessionRanks(Peers* peers) : peers_(peers) {}

  Peers* peers() const { return peers_; }
  bool alone() const { return peers_ == nullptr; }
  bool first() const { return alone() || peers_->rank() == 0; }
  RankShare share() const { return alone() ? RankShare{} : RankShare{peers_->rank(), peers_->count()}; }

  // The preparation of all: the first rank plans, the first of each host makes the files of data there.
  std::variant<Prepared, Refused> prepare(const Config& config, PrepareOptions options, bool first_of_host, const Say& say) const;
  // Makes room for the exchanges of the program. After this, a wait longer than `seconds` is E-RANK-LOST. Before, a wait lasts as
  // long as the other ranks live.
  void reserve(const Program& program, double seconds);

  // From here on, the first rank reads whole parameters of this executor in `on_first`; null: of none.
  void share_values(const Executor* executor) { executor_ = executor; }

  // Runs the work on all ranks; all throw the error of one.
  void together(const std::function<void()>& work) const;
  // Runs the work on the first rank, for whose end the others wait as long as it lives.
  void on_first(const std::function<void()>& work) const;
  // Runs work of all ranks, some of which may take long.
  void patiently(const std::function<void()>& work) const;

  // The state of a rank after an update, and the decisions of all.
  struct State {
    std::string stopped_by;  // a signal; empty: none
    bool saves = false;      // of the first rank: a checkpoint is due
    bool failed = false;     // the rank could not record the update
    Bytes process_hwm = {};
  };
  // The first signal, the wish of the first rank, the largest memory; failed if one of them is.
  State agree(const State& mine);

  // True if it holds for one of the ranks.
  bool any(bool here) const;
  // The event of Peers for exchanges between the updates.
  std::uint32_t event() const { return event_; }

  // The measurements of all ranks, with the bytes sent since reserve(); empty in a process that trains alone.
  std::vector<RankReport> reports(Bytes arena) const;

 private:
  // Gives shards of the executor's parameters to the first rank, until it calls `end`.
  void serve() const;
  void end() const;

  Peers* peers_;
  const Executor* executor_ = nullptr;
  std::uint32_t event_ = 0;
  double seconds_ = 0;
  Bytes sent_;  // until the room for exchanges was made
};

}  // namespace plimsoll
