#include "base/text.h"

#include <gtest/gtest.h>

#include <vector>

namespace plimsoll {
namespace {

const std::vector<std::string> kNames{"train", "plan", "evaluate", "lr"};

TEST(NearestName, IsWithinAThirdOfTheLengthOrTwoEdits) {
  EXPECT_EQ(nearest_name("trian", kNames), "train");
  EXPECT_EQ(nearest_name("eveluete", kNames), "evaluate");
  EXPECT_EQ(nearest_name("evolaute", kNames), "");  // three of eight letters
  EXPECT_EQ(nearest_name("lrr", kNames), "lr");
  EXPECT_EQ(nearest_name("benchmark", kNames), "");
  EXPECT_EQ(nearest_name("muon", std::vector<std::string>{"lion"}), "");  // two of four letters
}

TEST(NearestName, KeepsSomethingOfTheName) {
  EXPECT_EQ(nearest_name("xy", kNames), "");
  EXPECT_EQ(nearest_name("l", kNames), "");
  EXPECT_EQ(nearest_name("", kNames), "");
}

TEST(NearestName, TakesTheFirstOfSeveral) {
  const std::vector<std::string> close{"beta1", "beta2"};
  EXPECT_EQ(nearest_name("beta", close), "beta1");
}

}  // namespace
}  // namespace plimsoll
