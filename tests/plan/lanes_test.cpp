#include "plan/tiers/lanes.h"

#include <gtest/gtest.h>

#include "base/ceil_div.h"
#include "plan/small_models.h"

namespace plimsoll {
namespace {

using Kind = LaneEvent::Kind;

LaneEvent kernels(double seconds) { return {.kind = Kind::kernels, .kernels = seconds}; }
LaneEvent start(bool outward) { return {.kind = Kind::start, .outward = outward, .transfer = {3}, .alone = {2}}; }
LaneEvent wait(bool outward) { return {.kind = Kind::wait, .outward = outward}; }

double stall_of(const LaneEvents& events) {
  LaneClock clock;
  clock.run(events);
  return clock.stall();
}

TEST(LaneClock, KernelsWaitForWhatIsNotThere) {
  EXPECT_DOUBLE_EQ(stall_of({start(false), kernels(0.5), wait(false), kernels(1)}), 1.5);
  EXPECT_DOUBLE_EQ(stall_of({start(false), kernels(5), wait(false)}), 0);
  EXPECT_DOUBLE_EQ(stall_of({start(false), start(false), wait(false), wait(false)}), 4) << "one after the other";
}

TEST(LaneClock, WhatStartsEarlyMayBeNeededLate) {
  LaneEvent early = start(false), next = start(false), wait_next = wait(false), wait_early = wait(false);
  early.home = wait_early.home = ValueId{1};
  next.home = wait_next.home = ValueId{2};
  EXPECT_DOUBLE_EQ(stall_of({early, next, wait_next}), 4);
  EXPECT_DOUBLE_EQ(stall_of({early, next, wait_early}), 2);
  EXPECT_DOUBLE_EQ(stall_of({early, next, wait_next, wait_early, wait_next}), 4) << "nothing is waited for twice";
  EXPECT_DOUBLE_EQ(stall_of({early, next, kernels(1), early, wait_early, kernels(4), wait_early}), 1) << "the oldest of the two";
}

TEST(LaneClock, ATransferHasTheLinkForItselfWhileTheOtherWayIsIdle) {
  EXPECT_DOUBLE_EQ(stall_of({start(true), start(false), wait(false)}), 3);
  EXPECT_DOUBLE_EQ(stall_of({start(true), kernels(2), start(false), wait(false)}), 2);
}

TEST(LaneClock, WhatIsThereLaterLeavesTheLaneToOthers) {
  LaneEvent late = start(false);
  late.tail = 0.5;
  EXPECT_DOUBLE_EQ(stall_of({late, wait(false)}), 2.5);
  EXPECT_DOUBLE_EQ(stall_of({late, late, wait(false), wait(false)}), 4.5);
  EXPECT_DOUBLE_EQ(stall_of({late, kernels(2.25), wait(false)}), 0.25);
}

TEST(LaneClock, KernelsLoseWhatPassesBesideThem) {
  LaneEvent in = start(false);
  in.lost = 0.25;
  EXPECT_DOUBLE_EQ(stall_of({in, kernels(5), wait(false)}), 0.25);
  EXPECT_DOUBLE_EQ(stall_of({in, wait(false)}), 2) << "no more than the transfer, where nothing else runs";
  const LaneEvent streams{.kind = Kind::streamed, .kernels = 4, .transfer = {3}, .lost = 0.5, .apart = true};
  EXPECT_DOUBLE_EQ(stall_of({streams}), 0.5);
}

// State comes in and goes out once an update, in pages.
TEST(LaneModel, KernelsLoseTimeForEachByteAndForEachPiece) {
  const Config config = config_for({2, 256, 4, 16, 301}, 2);
  const Residency residency{.pages = {kPageStep, 4}, .optimizer_state = kBeyond};
  const Graph graph = build_training_graph(config, kTrainAndValidate, 2).graph;
  OpCatalogue catalogue = round_catalogue();
  NodeKernels kernels(2, catalogue);
  const Simulation simulation = simulate(apply_paging(graph, find_units(graph), residency), 1, 1, true, kernels);
  double bytes = 0, pieces = 0;
  for (const Value& value : simulation.graph.values) {
    if (!value.persistent() || value.tier == 0) continue;
    bytes += 2 * static_cast<double>(value.bytes().n);
    pieces +=
        2 * static_cast<double>(ceil_div(value.bytes().n, residency.pages.elements * static_cast<std::int64_t>(sizeof(float))));
  }
  ASSERT_GT(pieces, 0);
  const auto lost = [&](double per_byte, double per_piece) {
    Machine machine = round_machine();
    for (Link& link : machine.links) {
      link.kernel_seconds_per_byte = per_byte;
      link.kernel_seconds_per_piece = per_piece;
    }
    const LaneModel model(simulation, residency, machine);
    double sum = 0;
    for (std::size_t step = 0; step < simulation.timeline.steps.size(); ++step) {
      for (const LaneEvent& event : model.events_of(static_cast<int>(step))) sum += event.lost;
    }
    return sum;
  };
  EXPECT_DOUBLE_EQ(lost(1, 0), bytes);
  EXPECT_DOUBLE_EQ(lost(0, 1), pieces);
  EXPECT_DOUBLE_EQ(lost(1, 2), bytes + 2 * pieces);
}

// Covers the copies of blocks and the streams of an update.
TEST(LaneModel, APageHasALatencyOfItsOwnWhileTheOtherWayIsIdle) {
  const Config config = config_for({2, 256, 4, 16, 301}, 2);
  const Residency residency{.pages = {kPageStep, 4}, .optimizer_state = kBeyond, .parameters = kBeyond, .accumulators = kBeyond};
  const std::vector<Unit> units = find_units(build_training_graph(config, kTrainAndValidate, 2).graph);
  OpCatalogue catalogue = round_catalogue();
  NodeKernels kernels(2, catalogue);
  const Graph paged = apply_paging(build_training_graph(config, kTrainAndValidate, 2).graph, units, residency);
  const Simulation simulation = simulate(apply_choices(paged, units, {}, residency, {1, 1}), 1, 1, true, kernels);
  constexpr double kBoth = 4, kAlone = 1, kRate = 1e18;
  Machine machine = round_machine();
  for (Link& link : machine.links) {
    link = {.from = link.from, .to = link.to, .bytes_per_second = kRate, .latency_seconds = kBoth};
    link.alone_latency_seconds = kAlone;
  }
  const LaneModel model(simulation, residency, machine);
  int starts = 0, streams = 0;
  for (std::size_t step = 0; step < simulation.timeline.steps.size(); ++step) {
    for (const LaneEvent& event : model.events_of(static_cast<int>(step))) {
      starts += event.kind == Kind::start;
      streams += event.kind == Kind::streamed;
      if (event.kind == Kind::start) EXPECT_NEAR(event.alone[0], event.transfer[0] * kAlone / kBoth, 1e-6);
      if (event.kind != Kind::streamed) continue;
      const double in = event.in[0], out = event.out[0];
      EXPECT_NEAR(event.transfer[0], std::min(in, out) + std::abs(in - out) * kAlone / kBoth, 1e-6);
    }
  }
  EXPECT_GT(starts, 0);
  EXPECT_GT(streams, 0);
}

TEST(LaneClock, WhatPassesTwoLinksIsThereWhenBothLetItThrough) {
  const LaneEvent far{.kind = Kind::start, .transfer = {1, 4}, .alone = {1, 4}},
      near{.kind = Kind::start, .transfer = {1}, .alone = {1}};
  EXPECT_DOUBLE_EQ(stall_of({far, wait(false)}), 4);
  EXPECT_DOUBLE_EQ(stall_of({far, near, wait(false), wait(false)}), 4) << "the near link is free again";
  EXPECT_DOUBLE_EQ(stall_of({near, far, wait(false)}), 1);
  const LaneEvent streams{.kind = Kind::streamed, .kernels = 4, .transfer = {3, 6}, .apart = true};
  EXPECT_DOUBLE_EQ(stall_of({streams}), 2);
}

TEST(LaneClock, TheFirstMicroStepOfAWindowBringsNothingToAddTo) {
  LaneEvent later = start(false), waits = wait(false);
  later.when = waits.when = LaneEvent::When::later;
  const LaneEvents events{later, kernels(0.5), waits};
  EXPECT_DOUBLE_EQ(stall_of(events), 0);
  EXPECT_DOUBLE_EQ(micro_lanes(1, events).stall, 0);
  EXPECT_DOUBLE_EQ(micro_lanes(4, events).stall, 3 * 1.5 / 4);
  EXPECT_DOUBLE_EQ(micro_lanes(4, events).busy.in[0], 3 * 2.0 / 4);
  EXPECT_DOUBLE_EQ(micro_lanes(4, events).busy.kernels, 0.5);
}

TEST(LaneClock, WhatStreamsApartFillsItsPagesEveryTime) {
  const LaneEvent apart{.kind = Kind::streamed, .kernels = 4, .transfer = {6}, .fill = 0.5, .apart = true};
  EXPECT_DOUBLE_EQ(stall_of({apart}), 2.5);
  EXPECT_DOUBLE_EQ(stall_of({apart, apart}), 5);
  LaneEvent updates = apart;
  updates.apart = false;
  EXPECT_DOUBLE_EQ(stall_of({updates, updates}), 4.5) << "the second one follows without a break";
}

}  // namespace
}  // namespace plimsoll
