// The lanes of a machine, as a model of time: kernels run one after the other, and beside them transfers in and transfers out,
// each lane in the order of its starts. Kernels wait for what they need; the sum of these waits is the stall.
#pragma once

#include <deque>
#include <vector>

#include "plan/machine.h"
#include "plan/passes/paging.h"
#include "plan/timeline.h"

namespace plimsoll {

struct Simulation;

struct LaneEvent {
  enum class Kind : std::uint8_t {
    kernels,   // run
    start,     // a transfer out, or in
    wait,      // for the oldest transfer on that lane that nothing has waited for
    streamed,  // kernels that work on pieces while others are on their way, both ways
  } kind = Kind::kernels;
  bool outward = false;
  double kernels = 0, transfer = 0;  // seconds; streamed: of both lanes
  double alone = 0;                  // seconds of a transfer while the other lane is idle
  double in = 0, out = 0;            // streamed: of each lane
  double ahead = 0;                  // streamed: the share of the transfers that may run before the kernels begin
  double fill = 0;                   // streamed: seconds until the first pieces are there, where nothing has streamed before
  bool apart = false;                // streamed: through pages of its own, which are empty before and after it
};
using LaneEvents = std::vector<LaneEvent>;
// Kernels that follow kernels become one event.
void append(LaneEvents& events, const LaneEvents& more);

// What the steps of a simulation do on the lanes. All references outlive this.
class LaneModel {
 public:
  LaneModel(const Simulation& simulation, const Paging& paging, const Machine& machine);
  // None where the step takes no time.
  LaneEvents events_of(int step) const;

 private:
  double kernel_seconds(int step) const;
  LaneEvents stream(int step) const;
  LaneEvent streamed(const Node& node, double seconds) const;
  LaneEvents transfer(const Node& node) const;

  const Simulation& simulation_;
  const Paging& paging_;
  const Link *in_, *out_;  // null where nothing moves
  Bytes page_;
};

// Seconds in which each lane is busy.
struct LaneSeconds {
  double kernels = 0, in = 0, out = 0;
};

class LaneClock {
 public:
  void run(const LaneEvents& events);
  double stall() const { return stall_; }
  const LaneSeconds& busy() const { return busy_; }

 private:
  void run(const LaneEvent& event);
  void pause(double until);

  double now_ = 0, stall_ = 0;
  LaneSeconds busy_;
  double free_[2] = {0, 0};     // when the lane in, out is free
  std::deque<double> done_[2];  // when what was started on it is over
  bool streams_ = false;
  double last_streamed_ = 0;
};

}  // namespace plimsoll
