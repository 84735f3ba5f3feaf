// The lanes of a machine, as a model of time: kernels run one after the other, and beside them on each link transfers in and
// transfers out, each lane in the order of its starts. What comes from the second tier on passes two links, piece by piece.
// Kernels wait for what they need; the sum of these waits is the stall.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plan/machine.h"
#include "plan/passes/paging.h"
#include "plan/timeline.h"

namespace plimsoll {

struct Simulation;

// One for each link: 0 leads to tier 1, 1 from there to tier 2.
template <class T>
using PerLink = std::array<T, kMostTiers - 1>;

struct LaneEvent {
  enum class Kind : std::uint8_t {
    kernels,   // run
    start,     // a transfer out, or in
    wait,      // for the oldest transfer of that value on that lane that nothing has waited for
    streamed,  // kernels that work on pieces while others are on their way, both ways
  } kind = Kind::kernels;
  // The first micro-step of a window writes what the others add to, and need not bring it in.
  enum class When : std::uint8_t { always, first, later } when = When::always;
  bool outward = false;
  ValueId home;                 // where it starts from or goes to, or what is waited for
  double kernels = 0;           // seconds
  PerLink<double> transfer{};   // seconds; streamed: of both lanes
  PerLink<double> alone{};      // seconds of a transfer while the other lane is idle
  PerLink<double> in{}, out{};  // streamed: of each lane
  double tail = 0;              // seconds until a transfer is there after its lane is free again
  double lost = 0;              // seconds that kernels take longer for what is on its way beside them
  double ahead = 0;             // streamed: the share of the transfers that may run before the kernels begin
  double fill = 0;              // streamed: seconds until the first pieces are there, where nothing has streamed before
  bool apart = false;           // streamed: through pages of its own, which are empty before and after it
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
  LaneEvents stream(int step, const std::vector<StreamedInput>& inputs) const;
  LaneEvent streamed(const Node& node, const std::vector<StreamedInput>& inputs, double seconds, bool first_round) const;
  LaneEvents transfer(const Node& node) const;

  struct Ways {
    const Link *in = nullptr, *out = nullptr;  // null where nothing moves
  };

  const Simulation& simulation_;
  const Paging& paging_;
  PerLink<Ways> links_;
  std::int64_t page_ = 0;  // elements
};

// Seconds in which each lane is busy.
struct LaneSeconds {
  double kernels = 0;
  PerLink<double> in{}, out{};
};

class LaneClock {
 public:
  // Of the first micro-step of a window, or of a later one.
  explicit LaneClock(bool first = true) : skipped_(first ? LaneEvent::When::later : LaneEvent::When::first) {}
  void run(const LaneEvents& events);
  void run_kernels(double seconds) { now_ += seconds, busy_.kernels += seconds; }
  double stall() const { return stall_; }
  const LaneSeconds& busy() const { return busy_; }

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
  PerLink<std::array<double, 2>> free_{};  // when the lane in, out is free
  std::vector<Underway> underway_[2];      // inward, outward, in the order of the starts
  bool streams_ = false;
  double last_streamed_ = 0;
};

// What a micro-step comes to, on average over the rounds of a window.
struct MicroLanes {
  double stall = 0;
  LaneSeconds busy;
};
MicroLanes micro_lanes(std::int64_t rounds, const LaneEvents& events);
// By the clocks of the first micro-step and of a later one.
MicroLanes micro_lanes(std::int64_t rounds, const LaneClock& first, const LaneClock& later);

}  // namespace plimsoll
