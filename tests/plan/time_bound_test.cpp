// The bound on seconds: no plan is faster, and less memory never lowers it. Values without room are recomputed or cross a link.

#include "plan/search/time_bound.h"

#include <gtest/gtest.h>

#include <cmath>

#include "plan/small_models.h"
#include "run/random_graph.h"

namespace plimsoll {
namespace {

constexpr double kLastBits = 1 + 1e-9;

struct Place {
  Machine machine;
  std::vector<Bytes> beyond;
};

Place with_links(double bytes_per_second) {
  Machine machine = round_machine();
  for (Link& link : machine.links) link.bytes_per_second = bytes_per_second;
  return {std::move(machine), {kGiB * 8}};
}

TEST(TimeBound, NoPlanIsFaster) {
  Place alone = with_links(1e8);
  for (Link& link : alone.machine.links) link.alone_bytes_per_second = 1.5e8;
  const Place places[] = {
      {round_machine(), {}}, with_links(2e9), with_links(5e7), alone, {round_device(), {kMiB * 64, kGiB * 8}}};
  int again = 0, moved = 0, grouped = 0, waited = 0;
  struct Case {
    ModelShape shape;
    std::int64_t micro = 0, group = 0;  // 0: the planner's choice
    DType state = DType::f32, sums = DType::f32;
    OptimizerKind optimizer = OptimizerKind::adamw;
  };
  const Case cases[] = {{kShapes[0]},
                        {kShapes[2], 1, 6},
                        {{8, 32, 2, 128, 17}, 3},
                        {{8, 32, 2, 128, 17}, 3, 2},
                        {{6, 32, 2, 64, 17}, 1},
                        {{6, 32, 2, 64, 17}, 1, 2, DType::bf16, DType::bf16},
                        {{4, 33, 3, 40, 101}, 2, 3, DType::u8},
                        {{3, 128, 4, 16, 17}, 2},
                        {{4, 33, 3, 40, 101}, 1, 6, DType::f32, DType::f32, OptimizerKind::adafactor}};
  for (const auto& [shape, micro, group, state, sums, optimizer] : cases) {
    for (const Place& place : places) {
      Config config = config_for(shape, 6);
      if (micro > 0) config.train.micro_batch = micro, config.train.accumulation = 6 / micro;
      if (group > 0) config.plan.group = group;
      config.precision.optimizer_state = state;
      config.precision.gradients = sums;
      config.optimizer.kind = optimizer;
      PlanRequest request = plan_request(config);
      request.beyond = place.beyond;
      OpCatalogue catalogue = round_catalogue();
      PlanSpace space(source_for(config), request, place.machine, catalogue);
      const std::int64_t floor = space.floor().n, ceiling = space.ceiling().n;
      double before = 1e30;
      for (int i = 0; i <= 12; ++i) {
        const Bytes budget{floor + (ceiling - floor) * i / 12};
        const Plan plan = std::get<Plan>(space.best({budget, {}, {}}));
        const TimeBound& bound = plan.bound_seconds;
        SCOPED_TRACE(std::to_string(shape.layers) + " layers in " + std::to_string(budget.n) + " of " + place.machine.name +
                     " with " + std::to_string(place.beyond.size()) + " tiers beyond");
        EXPECT_LE(bound.seconds(), plan.update_seconds * kLastBits);
        EXPECT_LE(bound.seconds(), before * kLastBits);
        EXPECT_GE(bound.compute, bound.again);
        before = bound.seconds();
        grouped += plan.decisions.group > 1 ? 1 : 0;
        again += bound.again > 0 ? 1 : 0;
        moved += bound.transfers > 0 ? 1 : 0;
        waited += bound.waits > 0 ? 1 : 0;
        if (i == 12 && place.beyond.empty()) EXPECT_NEAR(bound.seconds(), plan.update_seconds, 1e-9 * plan.update_seconds);
      }
    }
  }
  EXPECT_GT(again, 10);
  EXPECT_GT(moved, 10);
  EXPECT_GT(grouped, 20);
  EXPECT_GT(waited, 10);
}

// The bound within an arena that lacks a few bytes.
class ShortOf {
 public:
  explicit ShortOf(std::int64_t micro_batch, double clip_norm = 1)
      : config_(clipping({4, 32, 4, 16, 101}, clip_norm)),
        model_(build_training_graph(config_, kTrainAndValidate, micro_batch).graph, micro_batch, 6 / micro_batch, 2, catalogue_),
        cuts_(model_, true) {}

  TimeBound by(std::int64_t bytes, const Place& place) const { return within(enough(place) - bytes, place); }
  TimeBound with_arena(Bytes arena, const Place& place) const { return within(arena.n, place); }
  double parameters() const {  // bytes
    double bytes = 0;
    for (const Value& value : model_.graph.values) {
      if (value.role == Role::parameter && !value.producer.valid()) bytes += static_cast<double>(value.bytes().n);
    }
    return bytes;
  }

 private:
  static Config clipping(const ModelShape& shape, double norm) {
    Config config = config_for(shape, 6);
    config.train.gradient_clip = norm;
    return config;
  }

  TimeBound within(std::int64_t arena, const Place& place) const {
    PlanRequest request = plan_request(config_);
    request.beyond = place.beyond;
    return cuts_.within(Bytes{arena}, 1e-3, {}, 1, request, place.machine);
  }

  // The least arena that lacks no bytes.
  std::int64_t enough(const Place& place) const {
    std::int64_t low = 0, high = kGiB.n;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      const TimeBound bound = within(middle, place);
      if (bound.again > 0 || bound.transfers > 0) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return high;
  }

  Config config_;
  OpCatalogue catalogue_ = round_catalogue();
  BatchModel model_;
  TimeCuts cuts_;
};

TEST(TimeBound, WhatIsShortRunsAgainOrPasses) {
  for (const std::int64_t micro : {6, 2}) {
    const ShortOf cut(micro);
    const Place memory{round_machine(), {}};
    EXPECT_EQ(cut.by(0, memory).again, 0);
    const double some = cut.by(10'000, memory).again, more = cut.by(20'000, memory).again;
    EXPECT_GT(some, 0);
    EXPECT_GE(more, 2 * some * (1 - 1e-9)) << "the cheapest go first";
    EXPECT_TRUE(std::isinf(cut.by(kMiB.n * 64, memory).seconds())) << "persistent bytes cannot run again";

    const TimeBound fast = cut.by(20'000, with_links(1e12));
    EXPECT_EQ(fast.again, 0);
    EXPECT_GT(fast.transfers, 0);
    EXPECT_EQ(fast.compute, 1e-3);
    // The link is so slow that little crosses it while kernels run. The rest is recomputed, and meanwhile more crosses it.
    const TimeBound slow = cut.by(20'000, with_links(5e6));
    EXPECT_GT(slow.again, 0);
    EXPECT_LT(slow.again, more);
    EXPECT_NEAR(slow.compute, slow.transfers, 1e-6 * slow.compute);
    // If nothing more can be recomputed, only the link helps.
    const TimeBound far = cut.by(kMiB.n, with_links(5e6));
    EXPECT_TRUE(std::isfinite(far.seconds()));
    EXPECT_NEAR(far.transfers, far.seconds(), 1e-6 * far.seconds());
  }
}

// After the last gradient, weights, two moments and sums come in, the table's sums twice. All except the sums go out. Bytes that
// the arena holds do not move.
TEST(TimeBound, TheUpdateWaitsForWhatMemoryDoesNotHold) {
  const ShortOf window(2);
  const double bytes = window.parameters(), table = 101 * 32 * 4, rate = 5e6, arena = bytes / 4;
  const Bytes held{static_cast<std::int64_t>(arena)};
  EXPECT_NEAR(window.with_arena(held, with_links(rate)).waits, (4 * bytes + table - arena) / rate, 0.005 * bytes / rate);
  // A transfer alone moves three bytes in the time of two of a shared link. Outgoing bytes share the link with as many incoming
  // ones.
  Place alone = with_links(rate);
  for (Link& link : alone.machine.links) link.alone_bytes_per_second = 1.5 * rate;
  EXPECT_NEAR(window.with_arena(held, alone).waits, (3 * bytes - arena) / rate + (bytes + table) / (1.5 * rate),
              0.005 * bytes / rate);
  // If one direction at a time is faster, the directions take turns.
  for (Link& link : alone.machine.links) link.alone_bytes_per_second = 3 * rate;
  EXPECT_NEAR(window.with_arena(held, alone).waits, (7 * bytes + table - 2 * arena) / (3 * rate), 0.005 * bytes / rate);
  EXPECT_EQ(window.with_arena(kGiB, with_links(rate)).waits, 0);
  // A window of one round without clipping updates parameters within the backward pass, while its kernels run.
  EXPECT_GT(ShortOf(6).with_arena(held, with_links(rate)).waits, 0);
  EXPECT_EQ(ShortOf(6, 0).with_arena(held, with_links(rate)).waits, 0);
}

// Frozen parameters come in and do not go out, so a slow way out does not matter.
TEST(TimeBound, FrozenParametersComeInAlone) {
  Place place = with_links(2e8);
  for (Link& link : place.machine.links) {
    if (link.from == 0) link.bytes_per_second = 1e6;
  }
  PlanRequest request;
  request.effective_batch = request.micro_batch.emplace(2);
  request.units_per_sample = frozen_network(2).context;
  request.beyond = place.beyond;
  OpCatalogue catalogue = round_catalogue();
  PlanSpace space([](std::int64_t micro) { return frozen_network(micro).graph; }, request, place.machine, catalogue);
  int moved = 0;
  for (int i = 0; i <= 6; ++i) {
    const Bytes budget{space.floor().n + (space.ceiling().n - space.floor().n) * i / 6};
    const Plan plan = std::get<Plan>(space.best({budget, {}, {}}));
    EXPECT_LE(plan.bound_seconds.seconds(), plan.update_seconds * kLastBits) << i;
    moved += plan.bound_seconds.transfers > 0 ? 1 : 0;
  }
  EXPECT_GE(moved, 1);  // at the floor; what goes out would take seconds there
}

TEST(TimeBound, ATierHasRoomForWhatItHolds) {
  const ShortOf cut(6);
  Place small = with_links(1e12);
  small.beyond = {kKiB * 4};
  EXPECT_GT(cut.by(20'000, small).again, 0);
  EXPECT_LT(cut.by(20'000, small).again, cut.by(20'000, {round_machine(), {}}).again);
}

}  // namespace
}  // namespace plimsoll
