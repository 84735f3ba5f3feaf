#include "base/shell.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(Shell, QuotesWhatItWouldTakeApart) {
  EXPECT_EQ(shell_quoted("runs/a-b_1.toml"), "runs/a-b_1.toml");
  EXPECT_EQ(shell_quoted("optimizer.learning_rate=1e-4"), "optimizer.learning_rate=1e-4");
  EXPECT_EQ(shell_quoted(""), "''");
  EXPECT_EQ(shell_quoted("my run"), "'my run'");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quoted("$HOME;x"), "'$HOME;x'");
  EXPECT_EQ(shell_quoted("~"), "'~'");
}

}  // namespace
}  // namespace plimsoll
