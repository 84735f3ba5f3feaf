#include "device/check/range_checker.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace plimsoll {
namespace {

RangeChecker::Describe name_of(const char* instruction) {
  return [=] { return std::string(instruction); };
}

TEST(RangeChecker, FindsWhatWasOverwritten) {
  RangeChecker checker(Bytes{256});
  checker.write(Bytes{0}, Bytes{128}, 1, name_of("first"));
  checker.write(Bytes{128}, Bytes{128}, 2, name_of("second"));
  EXPECT_NO_THROW(checker.read(Bytes{0}, Bytes{128}, 1, name_of("reader")));
  EXPECT_NO_THROW(checker.read(Bytes{192}, Bytes{64}, 2, name_of("reader")));
  checker.write(Bytes{64}, Bytes{8}, 3, name_of("third"));
  EXPECT_NO_THROW(checker.read(Bytes{0}, Bytes{64}, 1, name_of("reader")));
  EXPECT_THROW(checker.read(Bytes{0}, Bytes{65}, 1, name_of("reader")), Error);
  EXPECT_THROW(checker.read(Bytes{71}, Bytes{2}, 3, name_of("reader")), Error);
}

TEST(RangeChecker, RefusesWhatLiesOutsideTheArena) {
  RangeChecker checker(Bytes{256});
  checker.write(Bytes{0}, Bytes{256}, 1, name_of("first"));
  for (const Bytes offset : {Bytes{-64}, Bytes{-1}, Bytes{193}, Bytes{256}, Bytes{1000}}) {
    EXPECT_THROW(checker.read(offset, Bytes{64}, 1, name_of("reader")), Error) << offset.n;
    EXPECT_THROW(checker.write(offset, Bytes{64}, 1, name_of("writer")), Error) << offset.n;
  }
  EXPECT_NO_THROW(checker.read(Bytes{192}, Bytes{64}, 1, name_of("reader")));
}

}  // namespace
}  // namespace plimsoll
