// A rising validation loss is told once for each rise, with the best evaluation so far.
#include "train/validation_watch.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace plimsoll {
namespace {

// The updates with a report, for evaluations every ten updates.
std::vector<std::int64_t> told(const std::vector<double>& losses) {
  ValidationWatch watch;
  std::vector<std::int64_t> updates;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const auto update = static_cast<std::int64_t>(10 * (i + 1));
    if (watch.see(update, losses[i])) updates.push_back(update);
  }
  return updates;
}

TEST(ValidationWatch, TellsOfThreeRisesInARow) {
  ValidationWatch watch;
  for (const auto& [update, loss] : {std::pair(10, 3.0), {20, 2.0}, {30, 2.5}, {40, 2.75}}) EXPECT_FALSE(watch.see(update, loss));
  const std::optional<ValidationRise> rise = watch.see(50, 3.5);
  ASSERT_TRUE(rise);
  EXPECT_EQ(rise->best_update, 20);
  EXPECT_EQ(rise->best_loss, 2.0);
  EXPECT_EQ(rise->loss, 3.5);
}

TEST(ValidationWatch, TellsOnceForEachRise) {
  EXPECT_EQ(told({1, 2, 3, 4, 5, 6, 7}), (std::vector<std::int64_t>{40}));
  EXPECT_EQ(told({1, 2, 3, 4, 3.5, 4, 5, 6, 7}), (std::vector<std::int64_t>{40, 80}));
}

TEST(ValidationWatch, SaysNothingElse) {
  EXPECT_TRUE(told({}).empty());
  EXPECT_TRUE(told({4, 3, 2, 1}).empty());
  EXPECT_TRUE(told({1, 2, 3, 2.5, 3, 4, 3}).empty());
  EXPECT_TRUE(told({1, 1, 1, 1, 1, 1}).empty());
  EXPECT_TRUE(told({1, 2, 3, std::numeric_limits<double>::quiet_NaN(), 4}).empty());
}

// A resumed run may evaluate once more at the update of its checkpoint.
TEST(ValidationWatch, CountsAnUpdateOnce) {
  ValidationWatch watch;
  for (const auto& [update, loss] : {std::pair(10, 1.0), {20, 2.0}, {20, 2.1}, {30, 3.0}, {30, 3.1}}) {
    EXPECT_FALSE(watch.see(update, loss));
  }
  EXPECT_TRUE(watch.see(40, 4.0));
}

}  // namespace
}  // namespace plimsoll
