#include "base/bytes.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "base/error.h"

namespace plimsoll {
namespace {

TEST(ParseBytes, LettersAloneAreBinaryUnits) {
  for (const auto& [letter, binary, size] :
       {std::tuple{"K", "KiB", kKiB}, {"k", "KiB", kKiB}, {"M", "MiB", kMiB}, {"G", "GiB", kGiB}}) {
    EXPECT_EQ(parse_bytes(std::string("3") + letter, "--memory"), size * 3) << letter;
    EXPECT_EQ(parse_bytes(std::string("3") + binary, "--memory"), size * 3) << binary;
  }
  EXPECT_EQ(parse_bytes("2T", "--memory"), kGiB * 2048);
  EXPECT_EQ(parse_bytes("1.5 G", "--memory"), kMiB * 1536);
}

TEST(ParseBytes, UnitsThatEndInBAreDecimal) {
  EXPECT_EQ(parse_bytes("2KB", "--memory"), Bytes{2000});
  EXPECT_EQ(parse_bytes("2kB", "--memory"), Bytes{2000});
  EXPECT_EQ(parse_bytes("1.5GB", "--memory"), Bytes{1'500'000'000});
  EXPECT_EQ(parse_bytes("77B", "--memory"), Bytes{77});
  EXPECT_EQ(parse_bytes("77", "--memory"), Bytes{77});
}

TEST(ParseBytes, CaseDoesNotMatter) {
  for (const char* text : {"2gib", "2GIB", "2g", "2 G", "2 gib"}) EXPECT_EQ(parse_bytes(text, "--memory"), kGiB * 2) << text;
  for (const char* text : {"2gb", "2GB", "2 GB", "2 Gb"}) EXPECT_EQ(parse_bytes(text, "--memory"), Bytes{2'000'000'000}) << text;
}

TEST(ParseBytes, RefusesTheRest) {
  for (const char* text : {"", "G", "1P", "1GiB2", "2gbit", "-1", "nan", "5000000T"}) {
    try {
      parse_bytes(text, "--memory");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code, "E-CONFIG-SIZE") << text;
    }
  }
}

TEST(CeilDiv, CountsPieces) {
  EXPECT_EQ(ceil_div(0, 5), 0);
  EXPECT_EQ(ceil_div(1, 5), 1);
  EXPECT_EQ(ceil_div(5, 5), 1);
  EXPECT_EQ(ceil_div(6, 5), 2);
  EXPECT_EQ(round_up(6, 5), 10);
}

}  // namespace
}  // namespace plimsoll
