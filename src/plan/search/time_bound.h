// A lower bound on the seconds of an update within a budget, whatever is recomputed or moved. When a backward node runs, each
// forward value that later backward nodes read is in memory, or its node runs once more, or it comes in from another tier. So two
// resources pay for the bytes that do not fit: kernels run nodes again, links move values. The bound takes the cheapest mix and
// allows fractions of both. It holds for plans that compute each gradient once, in the order of the graph, by the same
// instructions in each round of a window. A moved value that an update changes passes a link both ways, a frozen value only on
// the way in.
//
// Kernels after the last gradient read and write parameters and state. Memory holds at most an arena of these before and after.
// The rest passes the links while only these kernels run, and the kernels wait for longer transfers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/plan.h"
#include "plan/search/candidates.h"

namespace plimsoll {

// Per micro-batch size: the bytes that are live in every schedule at two steps, the loss and the backward node with the highest
// live bytes of the plan that keeps everything.
class TimeCuts {
 public:
  TimeCuts(BatchModel& model, bool saves);

  // `arena`: bytes of tier 0. `kernels`: seconds of an update in which each node runs once. `loss_scratch`: the least
  // scratch of the loss over all numbers of chunks. `group`: number of micro-batches that go through each block together.
  // Infinite if no plan fits.
  TimeBound within(Bytes arena, double kernels, Bytes loss_scratch, std::int64_t group, const PlanRequest& request,
                   const Machine& machine) const;

 private:
  struct Saved {                          // values that one node made
    std::int64_t bytes = 0, padding = 0;  // of its values with padding; of the padding alone, which no link moves
    double seconds = 0;                   // of running it again; infinite if it may not run again
    bool by_block = false;                // read by blocks, and so held for each micro-batch of a group
  };
  struct Cut {
    std::int64_t touched = 0;  // bytes that the node reads and writes; no persistent ones, no accumulators
    std::int64_t own = 0;      // its scratch, and accumulators that only this micro-step has
    bool loss = false;         // a loss, whose scratch depends on the chunks
    std::vector<Saved> saved;  // values that later nodes read, by rising seconds per byte
  };
  // The nodes that run after the last gradient of an update.
  struct End {
    double kernels = 0;                  // seconds
    std::int64_t read = 0, written = 0;  // bytes that exist before these nodes; bytes of parameters and state
    bool apart = false;                  // no update runs before it
  };
  struct Links;
  // The number of times that an update reaches a cut, with and without live accumulators, and the number of micro-batches whose
  // saved values are live there.
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
  std::int64_t movable_ = 0;                  // the part that may rest elsewhere and that an update changes
  std::int64_t frozen_ = 0;                   // the part in parameters that nothing changes
  std::int64_t padding_ = 0;                  // padding of the values that may move
  std::int64_t sums_ = 0, sums_padding_ = 0;  // accumulators, which live through a window of several rounds
  std::vector<Cut> cuts_;
  End one_round_, rounds_;  // windows of one round, of several rounds
};

}  // namespace plimsoll
