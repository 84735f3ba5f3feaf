// A lower bound on the seconds of an update within a budget, whatever is recomputed or moved. When a backward node runs, each
// forward value that later backward nodes read is in memory, or its node runs once more, or it comes in from another tier. So two
// resources pay for what does not fit: kernels for what runs again, the links for what leaves memory; of both a fraction is taken
// where that is cheaper. It holds for plans that compute each gradient once, in the order of the graph, by the same instructions
// in each round of a window. What an update changes passes a link both ways if it moves, what is frozen comes in alone.
//
// What reads parameters and state behind the last gradient finds no more of them in memory than the arena holds, and leaves no
// more there: the rest passes beside those kernels alone, and what they take no time for is waited for.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/candidates.h"

namespace plimsoll {

// Of one micro-batch size: what is live in every schedule while the loss runs, and while the backward node does at which most is
// live where everything is kept.
class TimeCuts {
 public:
  TimeCuts(BatchModel& model, bool saves);

  // `arena`: of tier 0. `kernels`: seconds of an update in which each node runs once. `loss_scratch`: the least. `group`: of the
  // micro-batches that go through each block together. Infinite where nothing helps.
  TimeBound within(Bytes arena, double kernels, Bytes loss_scratch, std::int64_t group, const PlanRequest& request,
                   const Machine& machine) const;

 private:
  struct Saved {                          // what one node made
    std::int64_t bytes = 0, padding = 0;  // of its values in the arena; of that, what no link moves
    double seconds = 0;                   // of running it again; infinite where it may not
    bool by_block = false;                // read by blocks, and so held for each micro-batch of a group
  };
  struct Cut {
    std::int64_t touched = 0;  // bytes that the node reads and writes; no persistent ones, no accumulators
    std::int64_t own = 0;      // its scratch, and accumulators that only this micro-step has
    bool loss = false;         // whose scratch depends on the chunks
    std::vector<Saved> saved;  // that later nodes read, by seconds a byte
  };
  // What runs behind the last gradient of an update.
  struct End {
    double kernels = 0;                  // seconds
    std::int64_t read = 0, written = 0;  // bytes of what was there before; of that, what lasts
    bool apart = false;                  // no update runs before it
  };
  struct Links;
  // How often an update comes to a cut, and of how many micro-batches something is saved there.
  struct Moments {
    std::int64_t with_sums = 0, without_sums = 0, copies = 1;
  };

  static End end_of(BatchModel& model, std::int64_t rounds, bool saves);
  Cut cut_at(const Simulation& simulation, int step, const PerNode<char>& before_loss, BatchModel& model) const;
  Moments moments(const Cut& cut, std::int64_t group) const;
  double all_again(const Cut& cut, const Moments& moments, double bytes) const;
  static double waits_behind(const End& end, Bytes arena, const Links& links);
  TimeBound at(const Cut& cut, const Moments& moments, Bytes arena, double kernels, Bytes scratch, const Links& links) const;

  std::int64_t accumulation_;                 // micro-batches of an update
  std::int64_t persistent_ = 0;               // bytes
  std::int64_t movable_ = 0;                  // of them, those that may rest elsewhere and that an update changes
  std::int64_t frozen_ = 0;                   // of them, parameters that nothing changes
  std::int64_t padding_ = 0;                  // of what may move
  std::int64_t sums_ = 0, sums_padding_ = 0;  // accumulators, which live through a window of several rounds
  std::vector<Cut> cuts_;
  End one_round_, rounds_;  // of windows of one round, of several
};

}  // namespace plimsoll
