#include "formats/config_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "formats/expect_error.h"

namespace plimsoll {
namespace {

// transformers takes null for false.
TEST(ConfigReader, ReadsFlagsAndCountsOrTheirDefaults) {
  const ConfigReader reader("config.json", {{"on", true}, {"off", false}, {"none", nullptr}, {"word", "yes"}, {"three", 3}});
  EXPECT_TRUE(reader.flag("on", false));
  EXPECT_FALSE(reader.flag("off", true));
  EXPECT_FALSE(reader.flag("none", true));
  for (const bool fallback : {false, true}) EXPECT_EQ(reader.flag("absent", fallback), fallback);
  EXPECT_ERROR(reader.flag("word", true), "E-FORMAT-CONFIG", "word is \"yes\"");
  EXPECT_EQ(reader.count("three", 9, 10), 3);
  EXPECT_EQ(reader.count("absent", 9, 10), 9);
  EXPECT_ERROR(reader.count("three", 1, 2), "E-FORMAT-CONFIG", "three is 3");
  EXPECT_ERROR(reader.count("none", 1, 2), "E-FORMAT-CONFIG", "none is null");
}

}  // namespace
}  // namespace plimsoll
