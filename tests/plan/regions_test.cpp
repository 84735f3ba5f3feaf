// Regions: composed bytes and seconds of every mixture are those of the whole schedule. The chain program finds the same plans as
// a search over all paths. Unit chains reach their known optimum.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "plan/regions/problem_chain.h"
#include "plan/replays/regions.h"

namespace plimsoll::regions {
namespace {

using replays::Op;
using replays::Pass;
using replays::Problem;

// Forward layers with branches inside, residual values around some, values that skip far ahead; a loss; the backward ops in
// reverse. Sizes and seconds are random.
class RandomChain {
 public:
  explicit RandomChain(unsigned seed) : random_(seed) {}

  Problem make(int layers, bool skips) {
    int stream = add_forward({}, size());
    std::vector<int> skipped;
    for (int layer = 0; layer < layers; ++layer) {
      const int inside = 1 + static_cast<int>(random_() % 6);
      const int input = stream;
      int now = stream;
      std::vector<int> branch;
      for (int i = 0; i < inside; ++i) {
        std::vector<int> reads{now};
        if (!branch.empty() && random_() % 3 == 0) reads.push_back(branch[random_() % branch.size()]);
        now = add_forward(reads, size());
        branch.push_back(now);
      }
      std::vector<int> reads{now};
      if (random_() % 2 == 0) reads.push_back(input);
      if (skips && !skipped.empty() && random_() % 4 == 0) reads.push_back(skipped.back());
      stream = add_forward(reads, size());
      if (skips && random_() % 4 == 0) skipped.push_back(stream);
    }
    const int forward = static_cast<int>(problem_.ops.size());
    Op loss{.reads = {stream}, .writes = {item(size())}, .overwrites = {}, .seconds = seconds(), .scratch = size()};
    problem_.ops.push_back(loss);
    gradient_of_.resize(problem_.items.size(), -1);
    gradient_of_[static_cast<std::size_t>(stream)] = loss.writes[0];
    for (int op = forward; op-- > 0;) add_backward(op);
    return problem_;
  }

 private:
  std::int64_t size() { return 64 * (100 + static_cast<std::int64_t>(random_() % 900)); }
  double seconds() { return 1.0 + static_cast<double>(random_() % 20); }
  int item(std::int64_t bytes) {
    problem_.items.push_back(bytes);
    return static_cast<int>(problem_.items.size()) - 1;
  }

  int add_forward(std::vector<int> reads, std::int64_t bytes) {
    std::sort(reads.begin(), reads.end());
    reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
    Op op{.reads = reads, .writes = {item(bytes)}, .overwrites = {}, .seconds = seconds()};
    if (random_() % 4 == 0) op.writes.push_back(item(64));  // a statistic of the row
    if (random_() % 3 == 0) op.scratch = size();
    op.replayable = random_() % 8 != 0;
    op.pass = Pass::forward;
    if (!reads.empty() && problem_.items[static_cast<std::size_t>(reads[0])] == bytes)
      op.overwrites.push_back({reads[0], op.writes[0]});
    problem_.ops.push_back(op);
    return op.writes[0];
  }

  // Reads the gradient of the result, and some operands and results of the forward op.
  void add_backward(int forward) {
    const Op of = problem_.ops[static_cast<std::size_t>(forward)];
    gradient_of_.resize(problem_.items.size(), -1);
    const int gradient = gradient_of_[static_cast<std::size_t>(of.writes[0])];
    if (gradient < 0) return;
    Op op{.reads = {gradient}, .writes = {}, .overwrites = {}, .seconds = 2 * of.seconds};
    const bool inputs = random_() % 4 != 0;
    for (const int read : of.reads) {
      if (inputs) op.reads.push_back(read);
    }
    if (!inputs || random_() % 3 == 0) op.reads.insert(op.reads.end(), of.writes.begin(), of.writes.end());
    op.pass = Pass::backward;
    op.of = forward;
    for (const int read : of.reads) {
      const int before = gradient_of_[static_cast<std::size_t>(read)];
      if (before >= 0) op.reads.push_back(before);
      const int made = item(problem_.items[static_cast<std::size_t>(read)]);
      op.writes.push_back(made);
      if (before >= 0) op.overwrites.push_back({before, made});
      if (problem_.items[static_cast<std::size_t>(gradient)] == problem_.items[static_cast<std::size_t>(made)])
        op.overwrites.push_back({gradient, made});
      gradient_of_.resize(problem_.items.size(), -1);
      gradient_of_[static_cast<std::size_t>(read)] = made;
    }
    std::sort(op.reads.begin(), op.reads.end());
    op.reads.erase(std::unique(op.reads.begin(), op.reads.end()), op.reads.end());
    problem_.ops.push_back(op);
  }

  std::mt19937 random_;
  Problem problem_;
  std::vector<int> gradient_of_;  // by item
};

TEST(Regions, CutTheChainWhereOneValueCrosses) {
  int cut = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Problem problem = RandomChain(seed).make(12, false);
    const Regions regions = find_regions(problem);
    cut += regions.count() > 6;
    int before = kOutside;
    for (int op = 0; op < regions.turn; ++op) {
      EXPECT_GE(regions.of[static_cast<std::size_t>(op)], before);
      before = std::max(before, regions.of[static_cast<std::size_t>(op)]);
    }
    int lowest = regions.count();
    for (int op = regions.turn; op < static_cast<int>(problem.ops.size()); ++op) {
      const int region = regions.of[static_cast<std::size_t>(op)];
      if (region < 0) continue;
      EXPECT_LE(region, lowest) << "backward passes mix";
      lowest = region;
      const int of = problem.ops[static_cast<std::size_t>(op)].of;
      if (of >= 0) EXPECT_EQ(region, regions.of[static_cast<std::size_t>(of)]);
    }
  }
  EXPECT_GT(cut, 10);
}

TEST(Regions, LongValuesAreCarriedAcrossCuts) {
  // An encoder whose result every layer of a decoder reads.
  Problem problem;
  const auto forward = [&](std::vector<int> reads) {
    problem.items.push_back(1 << 16);
    Op op{.reads = std::move(reads), .writes = {static_cast<int>(problem.items.size()) - 1}, .overwrites = {}, .seconds = 1};
    op.replayable = true;
    op.pass = Pass::forward;
    problem.ops.push_back(op);
    return op.writes[0];
  };
  int encoder = forward({});
  for (int i = 0; i < 6; ++i) encoder = forward({encoder});
  int decoder = forward({});
  for (int i = 0; i < 40; ++i) decoder = i % 2 == 0 ? forward({decoder, encoder}) : forward({decoder});
  const int count = static_cast<int>(problem.ops.size());
  for (int op = count; op-- > 0;) {
    Op backward{.reads = problem.ops[static_cast<std::size_t>(op)].reads, .writes = {}, .overwrites = {}, .seconds = 1};
    backward.reads.push_back(problem.ops[static_cast<std::size_t>(op)].writes[0]);
    backward.pass = Pass::backward;
    backward.of = op;
    problem.ops.push_back(backward);
  }
  const Regions regions = find_regions(problem);
  EXPECT_GE(regions.count(), 20);
}

// Bytes of a mixture, composed from edges, are those of the whole schedule.
TEST(Regions, MixturesComposeToTheByte) {
  int plans = 0, graphs = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    const Problem problem = RandomChain(seed).make(4 + static_cast<int>(seed % 12), seed % 2 == 1);
    const ProblemChain chain(problem, {});
    if (chain.regions().count() == 0) continue;
    ++graphs;
    std::mt19937 random(seed);
    for (int round = 0; round < 40; ++round) {
      std::vector<const Edge*> path;
      std::int64_t saved = 0, peak = chain.outside();
      double seconds = 0;
      for (int region = 0; region < chain.regions().count();) {
        const std::vector<Edge>& edges = chain.edges()[static_cast<std::size_t>(region)];
        const Edge& edge = edges[random() % edges.size()];
        path.push_back(&edge);
        peak = std::max(peak, saved + edge.peak);
        saved += edge.saved;
        seconds += edge.seconds;
        region = edge.end;
      }
      peak = std::max(peak, saved + chain.between());
      const auto outcome = replays::evaluate(problem, replays_of(path));
      ASSERT_TRUE(outcome.has_value()) << seed;
      ++plans;
      if (seed % 2 == 1) {  // a carried value may be held longer by what runs again
        EXPECT_LE(outcome->peak, peak) << seed;
      } else {
        EXPECT_EQ(outcome->peak, peak) << seed;
      }
      EXPECT_NEAR(outcome->seconds, seconds + replays::evaluate(problem, {})->seconds, 1e-9 * outcome->seconds);
    }
  }
  EXPECT_GE(plans, 1000);
  EXPECT_GE(graphs, 15);
}

// All paths, reduced to those that no other path beats.
std::vector<std::pair<std::int64_t, double>> all_paths(const std::vector<std::vector<Edge>>& edges,
                                                       const std::vector<End>& ends) {
  std::vector<std::pair<std::int64_t, double>> all;
  const std::function<void(int, std::int64_t, std::int64_t, double)> walk = [&](int region, std::int64_t saved, std::int64_t peak,
                                                                                double seconds) {
    if (region == static_cast<int>(edges.size())) {
      for (const End& end : ends) all.emplace_back(std::max(peak, saved + end.bytes), seconds + end.seconds);
      return;
    }
    for (const Edge& edge : edges[static_cast<std::size_t>(region)])
      walk(edge.end, saved + edge.saved, std::max(peak, saved + edge.peak), seconds + edge.seconds);
  };
  walk(0, 0, 0, 0);
  std::sort(all.begin(), all.end());
  std::vector<std::pair<std::int64_t, double>> best;
  for (const auto& each : all) {
    if (best.empty() || each.second < best.back().second) best.push_back(each);
  }
  return best;
}

TEST(Chain, FindsWhatAllPathsFind) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const int count = 1 + static_cast<int>(random() % 6);
    std::vector<std::vector<Edge>> edges(static_cast<std::size_t>(count));
    for (int begin = 0; begin < count; ++begin) {
      for (int end = begin + 1; end <= std::min(begin + 3, count); ++end) {
        for (int i = 0; i < (end == begin + 1 ? 3 : 1); ++i) {
          edges[static_cast<std::size_t>(begin)].push_back({.end = end,
                                                            .seconds = static_cast<double>(random() % 50),
                                                            .peak = 1000 + static_cast<std::int64_t>(random() % 1000),
                                                            .saved = -static_cast<std::int64_t>(random() % 300),
                                                            .replays = {}});
        }
      }
    }
    const std::vector<End> ends{{1500, 0}, {1200, 7}};
    const auto expected = all_paths(edges, ends);
    std::vector<ChainPlan> plans = solve_chain(edges, ends, 0, 1 << 20);
    std::reverse(plans.begin(), plans.end());
    ASSERT_EQ(plans.size(), expected.size()) << seed;
    for (std::size_t i = 0; i < plans.size(); ++i) {
      EXPECT_EQ(plans[i].bytes, expected[i].first);
      EXPECT_EQ(plans[i].seconds, expected[i].second);
    }
  }
}

TEST(Chain, FewLabelsKeepTheEndsAndLoseLittle) {
  const Problem problem = RandomChain(3).make(40, false);
  const ProblemChain chain(problem, {});
  const std::vector<ChainPlan> all = chain.solve(1 << 20), few = chain.solve(256);
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.front().bytes, few.front().bytes);
  EXPECT_EQ(all.back().bytes, few.back().bytes);
  for (const ChainPlan& plan : all) {
    const auto found = std::find_if(few.begin(), few.end(), [&](const ChainPlan& each) { return each.bytes <= plan.bytes; });
    ASSERT_NE(found, few.end());
    const double run = replays::evaluate(problem, {})->seconds;
    EXPECT_LE(found->seconds, plan.seconds + 0.01 * run);
  }
}

}  // namespace
}  // namespace plimsoll::regions
