#include "plan/layout/search.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/ceil_div.h"
#include "base/clock.h"
#include "base/error.h"
#include "cli/plan/layout_csv.h"
#include "instances.h"
#include "plan/layout/greedy.h"
#include "plan/layout/judge.h"
#include "plan/layout/place.h"

namespace plimsoll::layout {
namespace {

// The least height by trying every order of placement; each buffer goes to its lowest aligned place above the earlier ones that
// it overlaps. Every layout can be pushed down to one that some order gives, so this is exact.
class BruteForce {
 public:
  // Heights of `ceiling` and above do not count.
  explicit BruteForce(const Problem& problem, std::int64_t ceiling = std::int64_t{1} << 60)
      : problem_(problem), offsets_(problem.buffers.size(), -1), best_(ceiling) {}

  std::int64_t least_height() {
    visit(0, 0, 0);
    return best_;
  }

 private:
  void visit(std::size_t placed, std::int64_t height, std::int64_t last) {
    if (height >= best_ || best_ <= floor_) return;
    if (placed == offsets_.size()) {
      best_ = height;
      return;
    }
    for (std::size_t i = 0; i < offsets_.size(); ++i) {
      const Buffer& buffer = problem_.buffers[i];
      if (offsets_[i] >= 0) continue;
      std::int64_t offset = 0;
      for (std::size_t j = 0; j < offsets_.size(); ++j) {
        const Buffer& other = problem_.buffers[j];
        const bool overlap = std::max(buffer.lower, other.lower) < std::min(buffer.upper, other.upper);
        if (offsets_[j] < 0 || !overlap || buffer.size == 0 || other.size == 0) continue;
        const std::int64_t top = offsets_[j] + other.size;
        offset = std::max(offset, (top + problem_.alignment - 1) / problem_.alignment * problem_.alignment);
      }
      if (buffer.fixed_offset >= 0 && offset > buffer.fixed_offset) continue;
      if (buffer.fixed_offset >= 0) offset = buffer.fixed_offset;
      if (offset < last) continue;
      offsets_[i] = offset;
      visit(placed + 1, std::max(height, offset + buffer.size), offset);
      offsets_[i] = -1;
    }
  }

  const Problem& problem_;
  const std::int64_t floor_ = load(problem_);  // nothing is lower
  std::vector<std::int64_t> offsets_;
  std::int64_t best_;
};

void expect_holds(const Problem& problem, const Solution& solution, std::int64_t capacity = -1) {
  const auto violations = judge(problem, solution, capacity);
  EXPECT_TRUE(violations.empty()) << violations.size() << " violations, the first: " << violations.front();
}

// Consistent pins: each is at the greedy offset of the unpinned problem, or a little above it.
void pin_some(Dice& dice, Problem& problem) {
  const Solution base = greedy(problem);
  const std::int64_t lift = dice.roll(0, 2) * problem.alignment;
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    if (dice.roll(0, 2) == 0) problem.buffers[i].fixed_offset = base.offsets[i] + lift;
  }
}

void check_against_brute_force(const Problem& problem) {
  const std::int64_t least = BruteForce(problem).least_height();
  ASSERT_LE(lower_bound(problem), least);
  expect_holds(problem, greedy(problem));
  const Placement minimal = minimize(problem, -1);
  expect_holds(problem, minimal.solution);
  EXPECT_EQ(minimal.solution.height, least);
  EXPECT_TRUE(minimal.optimal());
  const SearchResult fits = search(problem, least);
  ASSERT_EQ(fits.status, Status::fits);
  expect_holds(problem, fits.solution, least);
  EXPECT_EQ(search(problem, least - 1).status, Status::impossible);
}

class LayoutFuzz : public testing::TestWithParam<std::uint64_t> {};

TEST_P(LayoutFuzz, AgreesWithBruteForce) {
  Dice dice(GetParam());
  for (int round = 0; round < 500 && !HasFailure(); ++round) {
    SCOPED_TRACE(fmt::format("seed {} round {}", GetParam(), round));
    Problem problem = random_problem(dice, dice.roll(1, 8), dice.roll(2, 12), dice.roll(1, 12));
    if (dice.roll(0, 2) == 0) problem.alignment = dice.roll(2, 5);
    if (dice.roll(0, 2) == 0) pin_some(dice, problem);
    check_against_brute_force(problem);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, LayoutFuzz, testing::Range<std::uint64_t>(0, 8));

// Buffers that live throughout, some pinned at the bottom or above a gap, with and without padding for alignment.
TEST(LayoutSearch, AgreesWithBruteForceBesideWhatLivesAlways) {
  Dice dice(91);
  for (int round = 0; round < 1500 && !HasFailure(); ++round) {
    SCOPED_TRACE(fmt::format("round {}", round));
    Problem problem = random_problem(dice, dice.roll(1, 5), 8, 10);
    problem.alignment = dice.roll(1, 4);
    const bool pinned = dice.roll(0, 1) == 0;
    std::int64_t top = dice.roll(0, 3) == 0 ? problem.alignment : 0;
    for (std::int64_t i = dice.roll(1, 3); i > 0; --i) {
      const Buffer always{0, 8, dice.roll(1, 8), pinned ? top : -1};
      top = round_up(top + always.size, problem.alignment);
      problem.buffers.insert(problem.buffers.begin() + dice.roll(0, std::ssize(problem.buffers)), always);
    }
    check_against_brute_force(problem);
  }
}

TEST(LayoutSearch, AgreesWithBruteForceAtTheLoad) {
  Dice dice(77);
  int impossible = 0;
  for (int round = 0; round < 2000 && !HasFailure(); ++round) {
    SCOPED_TRACE(fmt::format("round {}", round));
    const Problem problem = filled_problem(dice, 7, 5, 3);
    if (problem.buffers.size() > 11) continue;
    const std::int64_t bound = lower_bound(problem);
    const bool fits = BruteForce(problem, bound + 1).least_height() == bound;
    impossible += !fits;
    EXPECT_EQ(search(problem, bound).status, fits ? Status::fits : Status::impossible);
  }
  EXPECT_GT(impossible, 0) << "no instance needed more than its load, so nothing was proven";
}

TEST(LayoutSearch, ProvesThatLoadIsNotEnough) {
  Dice dice(3);
  int proven = 0;
  for (int round = 0; round < 500; ++round) {
    const Problem problem = filled_problem(dice, 12, 10, 6);
    const std::int64_t bound = lower_bound(problem);
    const SearchResult result = search(problem, bound);
    ASSERT_NE(result.status, Status::unknown);
    if (result.status == Status::fits) continue;
    ++proven;
    EXPECT_GE(result.refuted, bound);
    EXPECT_GT(greedy(problem).height, bound);
  }
  EXPECT_GT(proven, 20);
}

TEST(LayoutSearch, PacksPerfectPackings) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Dice dice(seed);
    const Problem problem = perfect_packing(dice, 100 + 5 * seed, 60, 1024, 1024);
    const SearchResult result = search(problem, 1048576, {.nodes = 300'000});
    ASSERT_EQ(result.status, Status::fits);
    expect_holds(problem, result.solution, 1048576);
  }
}

class LayoutHardCsv : public testing::TestWithParam<std::pair<std::string, std::int64_t>> {};

TEST_P(LayoutHardCsv, Packs) {
  const auto [name, capacity] = GetParam();
  const std::string path = fmt::format("{}/../shared/data/layout/{}.1048576.csv", PLIMSOLL_SOURCE_DIR, name);
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "the layout problems are not in ../shared/data/layout";
  const Problem problem = read_csv_file(path).problem;
  const SearchResult result = solve(problem, capacity, 500'000);
  ASSERT_EQ(result.status, Status::fits);
  expect_holds(problem, result.solution, capacity);
}

INSTANTIATE_TEST_SUITE_P(MiniMalloc, LayoutHardCsv,
                         testing::Values(std::pair("A", 1048576), std::pair("B", 1048576), std::pair("C", 1048576),
                                         std::pair("C", 1039360)),
                         [](const auto& test) { return test.param.first + std::to_string(test.param.second); });

TEST(LayoutSearch, StopsAtItsLimitAndIsPure) {
  Dice dice(5);
  const Problem problem = perfect_packing(dice, 300, 70, 1024, 1024);
  const SearchResult limited = search(problem, 1048576, {.nodes = 100});
  EXPECT_EQ(limited.status, Status::unknown);
  EXPECT_LE(limited.work.nodes, 200);
  const SearchResult again = search(problem, 1048576, {.nodes = 100});
  EXPECT_EQ(again.work.nodes, limited.work.nodes);
  EXPECT_EQ(search(problem, 1048575, {.nodes = 0}).status, Status::impossible) << "below the load no search is needed";
}

TEST(LayoutSearch, LegalOddities) {
  EXPECT_EQ(search({}, 0).status, Status::fits);
  EXPECT_EQ(search({}, -1).status, Status::impossible);
  Problem problem{{{0, 10, 0}, {5, 5, 7}, {0, 10, 4}}};
  EXPECT_EQ(load(problem), 4);
  EXPECT_EQ(minimize(problem, -1).solution.height, 7);
  problem.alignment = 8;
  problem.buffers.push_back({2, 3, 1});
  EXPECT_EQ(lower_bound(problem), 9);
  EXPECT_EQ(minimize(problem, -1).solution.height, 9);
}

TEST(LayoutSearch, RefusesProblemsThatNobodyMayPose) {
  EXPECT_THROW(greedy({{{0, 1, -1}}}), Error);
  EXPECT_THROW(greedy({{{1, 0, 1}}}), Error);
  EXPECT_THROW(greedy({{{0, 2, 4, 0}, {1, 3, 4, 2}}}), Error);
  EXPECT_THROW(greedy({{{0, 2, 4, 3}}, 2}), Error);
  // A pin below the top of the buffers that live throughout. Without these, its place would be free.
  const Problem overlapping{{{0, 4, 6, 0}, {0, 2, 3, 5}}};
  EXPECT_THROW(place(overlapping), Error);
  EXPECT_THROW(solve(overlapping, 100, -1), Error);
  EXPECT_THROW(minimize(overlapping, -1), Error);
  EXPECT_NO_THROW(greedy({{{0, 2, 4, 0}, {2, 3, 4, 2}}}));
}

TEST(LayoutPlace, TrainingTracesStayWithinHalfAPerCent) {
  for (const auto& [layers, per_layer] : {std::pair(12, 14), std::pair(24, 20), std::pair(48, 16), std::pair(90, 14)}) {
    SCOPED_TRACE(fmt::format("{} layers of {}", layers, per_layer));
    Dice dice(static_cast<std::uint64_t>(layers));
    const Problem problem = training_trace(dice, layers, per_layer);
    const Placement placement = place(problem);
    expect_holds(problem, placement.solution);
    EXPECT_LE(placement.solution.height * 1000, placement.bound * 1005);
    EXPECT_EQ(placement.optimal(), placement.solution.height == load(problem));
  }
}

// 500 to 4,000 buffers: at most half a per cent above the load, within seconds.
TEST(LayoutPlace, TrainingTracesOfEverySizeAndKind) {
  double worst = 0, longest = 0;
  for (const auto& [layers, per_layer] :
       {std::pair(12, 14), std::pair(32, 10), std::pair(40, 16), std::pair(64, 14), std::pair(96, 13)}) {
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      SCOPED_TRACE(fmt::format("{} layers of {}, seed {}", layers, per_layer, seed));
      Dice dice(1000 * static_cast<std::uint64_t>(layers) + seed);
      const Problem problem = training_trace(dice, layers, per_layer);
      EXPECT_GE(problem.buffers.size(), 500u);
      const double start = cpu_seconds_now();
      const Placement placement = place(problem);
      const double seconds = cpu_seconds_now() - start;
      expect_holds(problem, placement.solution);
      EXPECT_LE(placement.solution.height * 1000, load(problem) * 1005);
      EXPECT_LT(seconds, 5);
      worst = std::max(worst, static_cast<double>(placement.solution.height) / static_cast<double>(load(problem)) - 1);
      longest = std::max(longest, seconds);
    }
  }
  fmt::print("training traces: at most {:.3f} % above the load, {:.2f} CPU seconds\n", 100 * worst, longest);
}

// A hundred large buffers fill the arena to within two per cent. Thousands of small ones share the rest.
TEST(LayoutPlace, SmallBuffersGoAroundTheLargeOnes) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Dice dice(seed);
    Problem problem = perfect_packing(dice, 100, 600, 1024, 65536);
    const std::int64_t large = load(problem);
    for (int i = 0; i < 3000; ++i) {
      const std::int64_t lower = dice.roll(0, 599);
      problem.buffers.push_back({lower, lower + dice.roll(1, 6), 64 * dice.roll(1, 128)});
    }
    EXPECT_GT(greedy(problem).height * 1000, load(problem) * 1020) << "too easy";
    const Placement placement = place(problem);
    expect_holds(problem, placement.solution);
    EXPECT_LE(load(problem) * 1000, large * 1020);
    EXPECT_LE(placement.solution.height * 1000, load(problem) * 1010);
  }
}

// The last per cent of such a problem cannot be proved. The search must end without a limit too.
TEST(LayoutMinimize, EndsWithoutALimit) {
  Dice dice(6);
  const Problem problem = random_problem(dice, 600, 300, 1 << 20);
  const Placement placement = minimize(problem, -1);
  expect_holds(problem, placement.solution);
  EXPECT_LE(placement.solution.height * 100, placement.bound * 105);
}

// The lowest height of a plan of 24 blocks, which is its load: the search at the load decides, not the bisection above it.
TEST(LayoutMinimize, ReachesTheLoadOfATrainingPlan) {
  std::ifstream file(std::filesystem::path(PLIMSOLL_SOURCE_DIR) / "instances" / "byte-24.json");
  Problem problem;
  const nlohmann::json instance = nlohmann::json::parse(file);
  problem.alignment = instance.at("alignment").get<std::int64_t>();
  for (const auto& row : instance.at("result").at("buffers")) {
    if (row.at(0) != row.at(1)) problem.buffers.push_back({row.at(0), row.at(1), row.at(2)});
  }
  ASSERT_GT(problem.buffers.size(), 2'000U);
  const Placement placement = minimize(problem, 400'000);
  expect_holds(problem, placement.solution);
  EXPECT_TRUE(placement.optimal());
  EXPECT_EQ(placement.solution.height, load(problem));
}

TEST(LayoutPlace, HonoursPinsAtTheBottom) {
  Dice dice(11);
  Problem problem = training_trace(dice, 12, 12);
  std::int64_t bottom = 0;
  for (int i = 0; i < 20; ++i) {
    problem.buffers.push_back({0, 1000, 4096, bottom});
    bottom += 4096;
  }
  problem.alignment = 64;
  const Placement placement = place(problem);
  expect_holds(problem, placement.solution);
  EXPECT_LE(placement.solution.height * 1000, placement.bound * 1005);
}

TEST(LayoutJudge, NamesEveryPlantedViolation) {
  const Problem problem{{{0, 10, 8, 0}, {5, 15, 8}, {10, 20, 8}}, 4};
  const Solution good = greedy(problem);
  expect_holds(problem, good);
  const auto count = [&](const std::function<void(Solution&)>& damage, std::int64_t capacity = -1) {
    Solution bad = good;
    damage(bad);
    return judge(problem, bad, capacity).size();
  };
  EXPECT_EQ(count([](Solution& s) { s.offsets.pop_back(); }), 1U);
  EXPECT_EQ(count([](Solution& s) { s.height += 1; }), 1U);
  EXPECT_EQ(count([](Solution& s) { s.offsets = {0, 4, 12}; }), 2U);  // an overlap, a height
  EXPECT_EQ(count([](Solution& s) { s.offsets = {0, 8, 4}; }), 1U);   // an overlap
  EXPECT_EQ(count([](Solution& s) { s.offsets = {8, 0, 8}; }), 1U);   // the pin
  EXPECT_EQ(count([](Solution& s) { s.offsets = {0, 8, -4}; }), 1U);  // below zero
  EXPECT_EQ(count([](Solution& s) {
              s.offsets = {0, 9, 0};
              s.height = 17;
            }),
            1U);  // misaligned
  EXPECT_EQ(count([](Solution&) {}, 15), 1U);
}

}  // namespace
}  // namespace plimsoll::layout
