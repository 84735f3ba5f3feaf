#include "base/tasks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

namespace plimsoll {
namespace {

TEST(Tasks, EachRunsOnce) {
  for (const std::size_t count : {0U, 1U, 2U, 100U}) {
    std::vector<std::atomic<int>> runs(count);
    run_tasks(count, [&](std::size_t i) { ++runs[i]; });
    for (const std::atomic<int>& each : runs) EXPECT_EQ(each, 1);
  }
}

TEST(Tasks, TheFirstFailureByNumberIsThrownWhenAllHaveEnded) {
  std::atomic<int> ended{0};
  try {
    run_tasks(20, [&](std::size_t i) {
      ++ended;
      if (i % 7 == 3) throw std::runtime_error(std::to_string(i));
    });
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "3");
  }
  EXPECT_EQ(ended, 20);
}

}  // namespace
}  // namespace plimsoll
