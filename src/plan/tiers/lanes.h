// The lanes of a machine, as a model of time: kernels run one after the other; concurrently each link has a lane in and a
// lane out, each in the order of its starts. Transfers may pass several links, piece by piece. Kernels wait for their
// transfers; the sum of these waits is the stall.
//
//   kernels | block 0 | block 1 | stall | block 2 | block 3 |
//   in      | for 1   | for 2           | for 3   |
//   out               | of 0    | of 1          | of 2    |
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plan/machine.h"
#include "plan/passes/paging.h"
#include "plan/residency.h"
#include "plan/simulation.h"

namespace plimsoll {

// By link of the machine's ways.
template <class T>
using PerLink = OpenList<T>;

struct LaneEvent {
  enum class Kind : std::uint8_t {
    kernels,   // run
    start,     // a transfer out, or in
    wait,      // for the oldest transfer of that value on that lane that nothing has waited for
    streamed,  // kernels that work on pieces while others are in transfer, both ways
  } kind = Kind::kernels;
  // The first micro-step of a window writes the values that later ones add to, and does not fetch them.
  enum class When : std::uint8_t { always, first, later } when = When::always;
  bool outward = false;
  ValueId home;              // source or target of the transfer, or the value waited for
  double kernels = 0;        // seconds
  PerLink<double> transfer;  // seconds; streamed: of both lanes
  PerLink<double> alone;     // seconds of a transfer while the other lane is idle
  PerLink<double> in, out;   // streamed: of each lane
  double tail = 0;           // seconds until a transfer is there after its lane is free again
  double lost = 0;           // seconds that concurrent transfers add to kernels
  double ahead = 0;          // streamed: the share of the transfers that may run before the kernels begin
  double fill = 0;           // streamed: seconds until the first pieces are there, if no streamed event precedes
  bool apart = false;        // streamed: through pages of its own, which are empty before and after it
};
using LaneEvents = std::vector<LaneEvent>;
// Merges consecutive kernels into one event.
void append(LaneEvents& events, const LaneEvents& more);

// The lane events of a simulation's steps. All references outlive this.
class LaneModel {
 public:
  LaneModel(const Simulation& simulation, const Residency& residency, const Machine& machine);
  // Empty if the step takes no time.
  LaneEvents events_of(int step) const;

 private:
  double kernel_seconds(int step) const;
  LaneEvents stream(int step, const std::vector<StreamedInput>& inputs) const;
  LaneEvent streamed(const Node& node, const std::vector<StreamedInput>& inputs, double seconds, bool first_round) const;
  LaneEvents transfer(const Node& node) const;

  const Simulation& simulation_;
  const Residency& residency_;
  Ways ways_;              // none if nothing moves
  std::int64_t page_ = 0;  // elements
};

// Seconds in which each lane is busy.
struct LaneSeconds {
  double kernels = 0;
  PerLink<double> in, out;
};

class LaneClock {
 public:
  // The clock of the first micro-step of a window, or of a later one.
  explicit LaneClock(bool first = true) : skipped_(first ? LaneEvent::When::later : LaneEvent::When::first) {}
  void run(const LaneEvents& events);
  void run_kernels(double seconds) { now_ += seconds, busy_.kernels += seconds; }
  double stall() const { return stall_; }
  const LaneSeconds& busy() const { return busy_; }
  // The end of the last transfer on a link, in seconds of this clock.
  double end_of(std::size_t link, bool outward) const { return link < free_.size() ? free_[link][outward ? 1 : 0] : 0; }

 private:
  struct Underway {
    ValueId home;
    double end;
  };
  void run(const LaneEvent& event);
  void wait(const LaneEvent& event);
  double start(const LaneEvent& event);
  void stream(const LaneEvent& event);
  void pause(double until);

  LaneEvent::When skipped_;
  double now_ = 0, stall_ = 0;
  LaneSeconds busy_;
  PerLink<std::array<double, 2>> free_;  // when the lane in, out is free
  std::vector<Underway> underway_[2];    // inward, outward, in the order of the starts
  bool streams_ = false;
  double last_streamed_ = 0;
};

// A micro-step, on average over the rounds of a window.
struct MicroLanes {
  double stall = 0;
  LaneSeconds busy;
};
MicroLanes micro_lanes(std::int64_t rounds, const LaneEvents& events);
// By the clocks of the first micro-step and of a later one.
MicroLanes micro_lanes(std::int64_t rounds, const LaneClock& first, const LaneClock& later);

}  // namespace plimsoll
