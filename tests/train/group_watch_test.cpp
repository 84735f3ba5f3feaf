#include "train/group_watch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace plimsoll {
namespace {

struct Told {
  std::int64_t update;
  std::string reason, name;
  friend bool operator==(const Told&, const Told&) = default;
};
std::ostream& operator<<(std::ostream& out, const Told& told) {
  return out << told.update << ' ' << told.reason << ' ' << told.name;
}

struct Squares {
  double gradient, parameter, step;
};

// A matrix "w" and a vector "b" over n updates.
std::vector<Told> course(std::int64_t updates, std::int64_t warmup, const std::function<Squares(std::int64_t)>& matrix,
                         const std::function<Squares(std::int64_t)>& vector) {
  GroupWatch watch({{"w", true}, {"b", false}}, {}, warmup);
  std::vector<Told> told;
  for (std::int64_t update = 1; update <= updates; ++update) {
    const Squares w = matrix(update), b = vector(update);
    const std::vector<double> report{w.gradient, w.parameter, w.step, b.gradient, b.parameter, b.step};
    for (const GroupWarning& warning : watch.see(update, report)) {
      EXPECT_NE(warning.text.find(warning.names.front()), std::string::npos) << warning.text;
      for (const std::string& name : warning.names) told.push_back({update, warning.reason, name});
    }
  }
  return told;
}

constexpr Squares kHealthy{1, 100, 1e-4};

TEST(GroupWatch, WhatLearnsIsLeftAlone) {
  const auto healthy = [](std::int64_t) { return kHealthy; };
  EXPECT_EQ(course(1000, 0, healthy, healthy), std::vector<Told>{});
}

// Matrices that begin as zeros have large relative steps at first. Vectors are small.
TEST(GroupWatch, MatricesThatGrowFromZeroAndVectorsMayChangeALot) {
  const auto grows = [](std::int64_t update) {
    const double size = 1e-3 * static_cast<double>(update - 1);
    return Squares{1, size * size, 1e-6};
  };
  const auto changes = [](std::int64_t) { return Squares{1, 1, 1}; };
  EXPECT_EQ(course(1000, 0, grows, changes), std::vector<Told>{});
}

TEST(GroupWatch, UpdatesThatAreTooLargeAreToldOnce) {
  const auto healthy = [](std::int64_t) { return kHealthy; };
  const auto large = [](std::int64_t update) { return Squares{1, 100, update % 40 == 0 ? 0.9 : 1.1}; };  // of 1: a tenth
  EXPECT_EQ(course(1000, 0, large, healthy), (std::vector<Told>{{60, "UPDATE_RATIO", "w"}}));
  EXPECT_EQ(course(1000, 100, large, healthy), (std::vector<Told>{{120 + 20, "UPDATE_RATIO", "w"}}));
  const auto not_in_a_row = [](std::int64_t update) { return Squares{1, 100, update % 20 == 0 ? 0.9 : 1.1}; };
  EXPECT_EQ(course(1000, 0, not_in_a_row, healthy), std::vector<Told>{});
}

TEST(GroupWatch, GradientsOfZeroAreTold) {
  const auto dead = [](std::int64_t update) { return Squares{update > 10 ? 0.0 : 1.0, 100, 1e-4}; };
  const auto nearly = [](std::int64_t update) { return Squares{update % 50 == 0 ? 1e-30 : 0.0, 100, 0}; };
  EXPECT_EQ(course(1000, 0, dead, nearly), (std::vector<Told>{{60, "DEAD_GRADIENT", "w"}}));
}

TEST(GroupWatch, WhatWasToldIsNotToldAgain) {
  GroupWatch watch({{"w", true}, {"v", true}}, {}, 0);
  watch.was_told("UPDATE_RATIO", "w");
  std::vector<std::string> names;
  for (std::int64_t update = 1; update <= 200; ++update) {
    for (const GroupWarning& warning : watch.see(update, std::vector<double>{1, 1, 1, 1, 1, 1})) {
      names.insert(names.end(), warning.names.begin(), warning.names.end());
    }
  }
  EXPECT_EQ(names, std::vector<std::string>{"v"});
}

TEST(GroupWatch, TheUpdateRatioIsThatOfAllParameters) {
  EXPECT_DOUBLE_EQ(GroupWatch::update_ratio(std::vector<double>{5, 3, 1e-4, 7, 1, 3e-4}), std::sqrt(4e-4 / 4));
  EXPECT_EQ(GroupWatch::update_ratio(std::vector<double>{1, 0, 1}), 0);
  EXPECT_TRUE(std::isnan(GroupWatch::update_ratio(std::vector<double>{1, NAN, NAN})));
}

// Elements, zeros, subnormals of two layers.
std::vector<Told> small_course(const std::vector<double>& counts, double scale) {
  GroupWatch watch({}, {"h.0", "h.1"}, 0);
  std::vector<Told> told;
  for (std::int64_t update = 1; update <= 100; ++update) {
    for (const GroupWarning& warning : watch.see_small(counts, scale)) {
      for (const std::string& name : warning.names) told.push_back({update, warning.reason, name});
    }
  }
  return told;
}

TEST(GroupWatch, DigitsThatFp16LosesAreTold) {
  const std::vector<double> lost{1000, 500, 10, 1000, 500, 26};
  EXPECT_EQ(small_course(lost, 1024), (std::vector<Told>{{20, "UNDERFLOW", "h.1"}}));
  EXPECT_EQ(small_course(lost, 0x1p24), std::vector<Told>{}) << "the scale can rise no more";
  EXPECT_EQ(small_course({1000, 999, 0, 1000, 1000, 0}, 1024), std::vector<Told>{}) << "zeros say nothing";
  EXPECT_DOUBLE_EQ(GroupWatch::underflow(lost), 0.052);
}

}  // namespace
}  // namespace plimsoll
