// A stretch of regions cut out as a problem by itself. Its ops stand in their order. Between them are ops that stand for all
// others: they make what the stretch reads, and read what the others need of it. So each way of the stretch is evaluated to the
// byte.
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

class Stretch {
 public:
  // Regions [begin, end).
  Stretch(const ProblemFacts& facts, int begin, int end);

  // Positions are those of its ops.
  const replays::Problem& problem() const { return problem_; }
  const replays::Op& what(int position) const { return problem_.ops[static_cast<std::size_t>(position)]; }
  int size() const { return static_cast<int>(problem_.ops.size()); }
  // In the whole problem; -1: it stands for others.
  int op(int position) const { return ops_[static_cast<std::size_t>(position)]; }
  int region(int position) const;     // likewise
  int turn() const { return turn_; }  // the position between the passes: an op that does nothing
  // The position of the stretch's own op that makes an item; -1: others do.
  int maker(int item) const { return maker_[static_cast<std::size_t>(item)]; }
  // Whether only ops of the stretch touch it.
  bool own(int item) const { return own_[static_cast<std::size_t>(item)] != 0; }
  // Whether it leaves after the forward pass, and is there for the backward pass whoever reads it.
  bool away(int item) const { return !problem_.away.empty() && problem_.away[static_cast<std::size_t>(item)] != 0; }
  // Whether the op may, and what it makes is the stretch's own.
  bool may_run_again(int position) const;

  struct Outcome {
    std::vector<std::int64_t> live;  // by position: of what the stretch touches, with the clones before the op
    double seconds = 0;              // of what runs again
  };
  // Whether every run finds what it reads.
  bool evaluate(std::span<const replays::Replay> replays, Outcome& outcome) const;
  // The same for all stretches that may do the same things.
  std::string signature() const;

 private:
  void add(int op, replays::Op what);
  void add_own(int op, const std::vector<int>& items);

  const ProblemFacts& facts_;
  replays::Problem problem_;
  std::vector<int> ops_;
  int turn_ = 0;
  std::vector<int> maker_;
  std::vector<char> own_;
};

}  // namespace plimsoll::regions
