// A stretch of regions cut out as a problem by itself. Its ops stand in their order. Between them, stand-in ops represent all
// others: they make the values that the stretch reads, and read the values that the others need. So each choice of the stretch is
// evaluated to the byte.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/replays/regions.h"

namespace plimsoll::regions {

// Facts that all stretches of a problem share.
class ProblemFacts {
 public:
  ProblemFacts(const replays::Problem& problem, const Regions& regions);

  const replays::Problem& problem;
  const Regions& regions;
  std::vector<int> maker;                 // by item: the op that writes it; -1: there from the beginning
  std::vector<std::vector<int>> readers;  // by item: ops, ascending
};

// The ops and items of a stretch, and their dependencies. Most stretches need only this.
class Outline {
 public:
  // Regions [begin, end). `local`: by item of the whole problem, all kNone; scratch space for one outline at a time.
  Outline(const ProblemFacts& facts, int begin, int end, std::vector<int>& local);
  ~Outline();
  Outline(const Outline&) = delete;

  int size() const { return static_cast<int>(positions_.size()); }
  // In the whole problem; -1: it stands for others.
  int op(int position) const { return positions_[static_cast<std::size_t>(position)].op; }
  // Equal for all stretches with the same choices.
  std::string signature() const;

 private:
  friend class Stretch;
  enum class Kind : std::uint8_t { own, reading, turn, making };
  struct Position {
    Kind kind;
    int op, place;
  };
  // Items by place, ascending.
  struct ByPlace {
    std::vector<int> begin, items;
    std::span<const int> at(int place) const;
  };

  static ByPlace by_place(const std::vector<int>& place_of, std::size_t places);
  std::span<const int> others(const Position& position) const;
  bool replayable(int op) const;

  const ProblemFacts& facts_;
  std::vector<int>& local_;  // by item of the whole problem: its own number here
  std::vector<int> items_;   // of the whole problem, ascending: each that is made somewhere
  std::vector<char> own_;    // by item: see Stretch::own
  std::vector<Position> positions_;
  ByPlace read_, made_;  // by others, before the op at a place
  int turn_ = 0;
  bool pages_ = false;
};

class Stretch {
 public:
  explicit Stretch(const Outline& outline);

  // Positions are indices of its ops.
  const replays::Problem& problem() const { return problem_; }
  const replays::Op& what(int position) const { return problem_.ops[static_cast<std::size_t>(position)]; }
  int size() const { return static_cast<int>(problem_.ops.size()); }
  // In the whole problem; -1: it stands for others.
  int op(int position) const { return ops_[static_cast<std::size_t>(position)]; }
  int region(int position) const;     // likewise
  int turn() const { return turn_; }  // the position between the passes: an op that does nothing
  // The position of the stretch's own op that makes an item; -1: others do.
  int maker(int item) const { return maker_[static_cast<std::size_t>(item)]; }
  // True if only ops of the stretch touch the item, and it does not leave between the passes.
  bool own(int item) const { return own_[static_cast<std::size_t>(item)] != 0; }
  // True if the item leaves after the forward pass and is back for every reader of the backward pass.
  bool away(int item) const { return !problem_.away.empty() && problem_.away[static_cast<std::size_t>(item)] != 0; }
  // True if the op is replayable and its outputs are the stretch's own.
  bool may_run_again(int position) const;

  struct Outcome {
    std::vector<std::int64_t> live;  // by position: peak bytes at the op and its clones, of items that the stretch touches
    double seconds = 0;              // of the replays
  };
  // True if the inputs of every run exist.
  bool evaluate(std::span<const replays::Replay> replays, Outcome& outcome) const;

 private:
  replays::Op own_op(int op, const Outline& outline);

  const ProblemFacts& facts_;
  replays::Problem problem_;
  std::vector<int> ops_;
  int turn_ = 0;
  std::vector<int> maker_;
  std::vector<char> own_;
};

}  // namespace plimsoll::regions
