// A stretch of regions cut out of the problem: its ops in time, the items that they touch, and until when other ops hold these.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/regions/regions.h"

namespace plimsoll::regions {

// What never changes between the stretches of one problem.
class ProblemFacts {
 public:
  ProblemFacts(const replays::Problem& problem, const Regions& regions);

  const replays::Problem& problem;
  const Regions& regions;
  std::vector<int> maker;                 // by item: the op that writes it; -1: there from the beginning
  std::vector<std::vector<int>> readers;  // by item: ops, ascending
};

// A run of an op before the first run of another one, both as positions in the stretch.
struct LocalReplay {
  int op = 0, before = 0;
  friend bool operator==(const LocalReplay&, const LocalReplay&) = default;
};

class Stretch {
 public:
  // Regions [begin, end).
  Stretch(const ProblemFacts& facts, int begin, int end);

  struct Outcome {
    std::vector<std::int64_t> live;  // by position: of what the stretch touches, with the clones before the op
    std::int64_t held = 0;           // of it, between the passes
    double seconds = 0;              // of what runs again
  };
  // The replays by their places. Whether every run finds what it reads.
  bool evaluate(std::span<const LocalReplay> replays, Outcome& outcome) const;

  int size() const { return static_cast<int>(ops_.size()); }
  int op(int position) const { return ops_[static_cast<std::size_t>(position)]; }
  int turn() const { return turn_; }  // the first position of the backward passes
  const replays::Op& what(int position) const { return facts_.problem.ops[static_cast<std::size_t>(op(position))]; }
  const std::vector<int>& reads(int position) const { return reads_[static_cast<std::size_t>(position)]; }
  const std::vector<int>& writes(int position) const { return writes_[static_cast<std::size_t>(position)]; }

  int items() const { return static_cast<int>(bytes_.size()); }
  std::int64_t bytes(int item) const { return bytes_[static_cast<std::size_t>(item)]; }
  // The position that makes an item; -1: another stretch does, or it was there before.
  int maker(int item) const { return maker_[static_cast<std::size_t>(item)]; }
  // Whether only ops of the stretch touch it.
  bool own(int item) const { return maker(item) >= 0 && outside_last_[static_cast<std::size_t>(item)] < 0 && !away(item); }
  // Whether it leaves after the forward pass, and is there for the backward pass whoever reads it.
  bool away(int item) const { return away_[static_cast<std::size_t>(item)] != 0; }
  // Whether the op may run again: what it makes is the stretch's own.
  bool may_run_again(int position) const;
  // The repeated layer that the op at a position works for.
  int unit(int position) const { return what(position).unit; }
  // The same for all stretches that may do the same things.
  std::string signature() const;

 private:
  void add_transfers(const std::vector<int>& position_at, int turn_place, std::vector<std::int64_t>& change) const;

  const ProblemFacts& facts_;
  bool pages_ = false;  // values come from another tier one by one
  std::vector<int> ops_;
  int turn_ = 0;
  std::vector<std::vector<int>> reads_, writes_;  // by position: items of the stretch
  std::vector<std::vector<replays::Overwrite>> overwrites_;
  std::vector<std::int64_t> bytes_;  // by item, as the next
  std::vector<int> maker_;
  std::vector<char> away_;
  std::vector<int> outside_last_;  // the last op of another stretch that reads it; -1: none
  std::vector<int> held_to_;       // it is there for others at all positions before this one
  std::vector<int> comes_;         // the position before which it is made
};

}  // namespace plimsoll::regions
