// Few cases are tried, each once. The case right after the answer does not fit.
#include "prepare/boundary.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace plimsoll {
namespace {

// Cases whose needs grow as `needs` says, against a room.
struct Cases {
  std::function<double(std::int64_t)> needs;
  double room = 0;
  bool told = true;  // what they need
  std::map<std::int64_t, int> tries = {};

  std::optional<std::int64_t> last(std::int64_t start) {
    return last_that_fits(start, room, [&](std::int64_t number) {
      ++tries[number];
      const double each = needs(number);
      return Tried{each <= room, told ? std::optional(each) : std::nullopt};
    });
  }
  int most_tries_of_one() const {
    int most = 0;
    for (const auto& [number, count] : tries) most = std::max(most, count);
    return most;
  }
};

TEST(Boundary, FindsTheLastThatFitsFromAnywhere) {
  for (const std::int64_t want : {0, 1, 2, 3, 99, 1000, 4095, 123456}) {
    for (const std::int64_t start : {0, 1, 7, 1000, 1 << 20}) {
      for (const bool told : {true, false}) {
        Cases cases{[](std::int64_t n) { return 5.0 + static_cast<double>(n); }, 5.5 + static_cast<double>(want), told};
        EXPECT_EQ(cases.last(start), want) << "from " << start;
        EXPECT_EQ(cases.most_tries_of_one(), 1);
        EXPECT_TRUE(cases.tries.contains(want));
        EXPECT_TRUE(cases.tries.contains(want + 1));
        EXPECT_LE(cases.tries.size(), 42u);
      }
    }
  }
}

TEST(Boundary, NothingFits) {
  Cases cases{[](std::int64_t) { return 2.0; }, 1};
  EXPECT_EQ(cases.last(1000), std::nullopt);
  EXPECT_TRUE(cases.tries.contains(0));
}

// Needs that grow evenly take few tries: a straight line finds the answer. A curve takes a few more.
TEST(Boundary, FollowsTheNeeds) {
  Cases even{[](std::int64_t n) { return 1e6 + 4096.0 * static_cast<double>(n); }, 1e8};
  EXPECT_EQ(even.last(1023), 24169);
  EXPECT_LE(even.tries.size(), 5u);
  Cases blind = even;
  blind.tries.clear(), blind.told = false;
  EXPECT_EQ(blind.last(1023), 24169);
  EXPECT_LT(even.tries.size() + 10, blind.tries.size());
  Cases curve{[](std::int64_t n) { return 1e6 + 4096.0 * static_cast<double>(n) + 3.0 * static_cast<double>(n * n); }, 1e9};
  const std::optional<std::int64_t> last = curve.last(1023);
  ASSERT_TRUE(last);
  EXPECT_LE(curve.needs(*last), 1e9);
  EXPECT_GT(curve.needs(*last + 1), 1e9);
  EXPECT_LE(curve.tries.size(), 13u);
}

// A flat beginning, as if another phase had the peak. The line through its cases would lead too far.
TEST(Boundary, GoesNotFartherThanNeeded) {
  Cases bent{[](std::int64_t n) { return std::max(1e8 + static_cast<double>(n), 5e4 * static_cast<double>(n)); }, 5e8};
  EXPECT_EQ(bent.last(256), 10000);
  EXPECT_LE(bent.tries.rbegin()->first, 32 * 513 + 32 * 513 / 16);
  EXPECT_LE(bent.tries.size(), 8u);
}

// Needs that jump up and down have several answers. The returned case fits, and the next one does not.
TEST(Boundary, EndsBetweenTwoThatWereTried) {
  std::mt19937 random(5);
  for (int round = 0; round < 50; ++round) {
    std::map<std::int64_t, double> known;
    Cases cases{[&](std::int64_t n) {
                  const auto [place, fresh] = known.emplace(n, 0);
                  if (fresh) place->second = static_cast<double>(n) + static_cast<double>(random() % 200);
                  return place->second;
                },
                1000};
    const std::optional<std::int64_t> last = cases.last(static_cast<std::int64_t>(random() % 3000));
    ASSERT_TRUE(last);
    EXPECT_LE(known.at(*last), 1000);
    EXPECT_GT(known.at(*last + 1), 1000);
    EXPECT_EQ(cases.most_tries_of_one(), 1);
  }
}

TEST(Boundary, FindsTheFirstThatFits) {
  for (const std::int64_t want : {0, 1, 5, 64, 900}) {
    std::map<std::int64_t, int> tries;
    const auto attempt = [&](std::int64_t number) {
      ++tries[number];
      return Enough{number >= want, number >= want ? want + (number - want) / 2 : 0};
    };
    EXPECT_EQ(first_that_fits(1000, attempt), want);
    EXPECT_TRUE(want == 0 || tries.contains(want - 1));
    for (const auto& [number, count] : tries) EXPECT_EQ(count, 1) << number;
    EXPECT_LE(tries.size(), 22u);
  }
  EXPECT_EQ(first_that_fits(1000, [](std::int64_t) { return Enough{}; }), std::nullopt);
}

}  // namespace
}  // namespace plimsoll
