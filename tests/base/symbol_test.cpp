#include "base/symbol.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

namespace plimsoll {
namespace {

TEST(Symbol, IsOneForEqualTexts) {
  const std::string text = "h.11.mlp.c_fc.weight";
  const Symbol a(text), b(std::string_view(text).substr(0, 20));
  EXPECT_EQ(a, b);
  EXPECT_EQ(&a.text(), &b.text());
  EXPECT_EQ(a.text(), text);
  EXPECT_FALSE(a == Symbol("h.1.mlp.c_fc.weight"));
  EXPECT_EQ(a + "'", text + "'");
}

TEST(Symbol, OfNothingIsEmpty) {
  EXPECT_TRUE(Symbol().empty());
  EXPECT_EQ(Symbol(), Symbol(""));
  EXPECT_EQ(Symbol().text(), "");
}

TEST(Symbol, ThreadsThatNameTheSameGetTheSame) {
  constexpr int kTexts = 2000;
  std::array<std::vector<Symbol>, 4> all;
  {
    std::vector<std::jthread> threads;
    for (std::vector<Symbol>& own : all) {
      threads.emplace_back([&own] {
        for (int i = 0; i < kTexts; ++i) own.emplace_back("node " + std::to_string(i));
      });
    }
  }
  std::unordered_set<Symbol> distinct;
  for (const std::vector<Symbol>& own : all) {
    EXPECT_EQ(own, all.front());
    distinct.insert(own.begin(), own.end());
  }
  EXPECT_EQ(distinct.size(), static_cast<std::size_t>(kTexts));
}

}  // namespace
}  // namespace plimsoll
