#include "formats/bounded_json.h"

#include <gtest/gtest.h>

#include <istream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "base/clock.h"
#include "formats/expect_error.h"
#include "formats/file.h"
#include "formats/json_stream.h"
#include "formats/scratch_folder.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

TEST(BoundedJson, GivesWhatTheLibraryGives) {
  for (const char* text : {"1", "-1.5e3", "\"a\\u00e9\\n\"", "null", "[]", "{}", R"({"b":1,"a":[true,{"c":null}],"b":{"d":2}})",
                           R"([[],{},[{"x":[1,2,[3]]}],18446744073709551615,-9223372036854775808])"}) {
    std::string fault = "none yet";
    EXPECT_EQ(parse_json(text, {}, fault), Json::parse(text)) << text;
    EXPECT_EQ(fault, "");
    EXPECT_EQ(parse_ordered_json(text, {}, fault).dump(), OrderedJson::parse(text).dump()) << text;
  }
}

// Both parsers refuse an edited text, or read it alike.
TEST(BoundedJson, AgreesOnRandomTexts) {
  const std::uint64_t seed = std::random_device{}();
  std::mt19937_64 random(seed);
  const std::string good = R"({"a":[1,-2.5,"x\u00e9y"],"b":{"c":null,"d":[true,false]},"a":3})",
                    alphabet = "{}[]\",:01-.eE\\ntru";
  for (int round = 0; round < 20000; ++round) {
    std::string text = good;
    for (std::uint64_t edits = 1 + random() % 3; edits > 0; --edits) {
      text[random() % text.size()] = alphabet[random() % alphabet.size()];
    }
    std::string fault;
    const Json json = parse_json(text, {}, fault);
    const bool is_json = Json::accept(text);
    ASSERT_EQ(fault.empty(), is_json) << text << " seed " << seed;
    if (!is_json) continue;
    ASSERT_EQ(json, Json::parse(text)) << text << " seed " << seed;
    ASSERT_EQ(parse_ordered_json(text, {}, fault).dump(), OrderedJson::parse(text).dump()) << text << " seed " << seed;
  }
}

TEST(BoundedJson, RefusesWhatPassesALimit) {
  const JsonLimits limits{.bytes = 40, .values = 4, .depth = 3};
  const auto fault_of = [&](const std::string& text) {
    std::string fault;
    const bool discarded = parse_json(text, limits, fault).is_discarded();
    EXPECT_EQ(discarded, !fault.empty());
    return fault;
  };
  EXPECT_EQ(fault_of("[1,2,3]"), "");
  EXPECT_EQ(fault_of("[1,2,3,4]"), "it has more than 4 values");
  EXPECT_EQ(fault_of("[[[1]]]"), "");
  EXPECT_EQ(fault_of("[[[[1]]]]"), "it is nested deeper than 3");
  EXPECT_EQ(fault_of("[" + std::string(40, ' ') + "]"), "it has 42 bytes, and at most 40 are read");
  EXPECT_EQ(fault_of("[1,\n2 3]").substr(0, 16), "line 2, column 3");
  EXPECT_THROW(parse_json("[", limits), std::invalid_argument);

  ScratchFolder folder;
  write_raw(folder / "list", "[1]");
  EXPECT_ERROR(read_json_object(folder / "list", limits, "E-FORMAT-CONFIG"), "E-FORMAT-CONFIG", "not a JSON object");
  write_raw(folder / "broken", "{\"a\":}");
  EXPECT_ERROR(read_json_object(folder / "broken", limits, "E-FORMAT-CONFIG"), "E-FORMAT-CONFIG", "it is not JSON: line 1");
  write_raw(folder / "long", std::string(41, ' '));
  EXPECT_ERROR(read_json_object(folder / "long", limits, "E-FORMAT-CONFIG"), "E-FORMAT-CONFIG", "41 bytes");
}

// The library compares each key of an ordered object with all earlier ones.
TEST(BoundedJson, TakesTimeInProportionToTheText) {
  const auto seconds_of = [](int keys) {
    std::string text = "{";
    for (int i = 0; i < keys; ++i) text += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":0";
    text += '}';
    std::string fault;
    const double start = cpu_seconds_now();
    EXPECT_EQ(parse_ordered_json(text, {}, fault).size(), static_cast<std::size_t>(keys));
    return cpu_seconds_now() - start;
  };
  seconds_of(10000);
  EXPECT_LT(seconds_of(80000), 40 * seconds_of(10000) + 0.05);
}

Json stream(const File& file, std::size_t longest, bool shortens) {
  JsonStream buffer(file, 0, file.size(), {.longest = longest, .shortens = shortens, .refuse = [](std::string why) {
                                             return data_error("E-FORMAT-CONFIG", "text", std::move(why));
                                           }});
  std::istream input(&buffer);
  return Json::parse(input, nullptr, /*allow_exceptions=*/false);
}

TEST(JsonStream, ShortensLongTextsBetweenCharacters) {
  ScratchFolder folder;
  const std::string unit = R"(a\n\u00e9é😀\ud83d\ude00\"\\)";
  std::string text;
  for (int i = 0; i < 40000; ++i) text += unit;
  write_raw(folder / "x", R"({"k":")" + text + R"(","l":[1,")" + text + R"("]})");
  const File file = File::open(folder / "x");
  const Json whole = stream(file, std::size_t{1} << 30, true);
  ASSERT_FALSE(whole.is_discarded());
  const std::string all = whole["k"];
  for (std::size_t longest = 1; longest < 60; ++longest) {
    const Json json = stream(file, longest, true);
    ASSERT_FALSE(json.is_discarded()) << longest;
    const std::string kept = json["k"];
    EXPECT_LE(kept.size(), longest + 12);
    EXPECT_EQ(kept, all.substr(0, kept.size()));
    EXPECT_EQ(json["l"][1], json["k"]);
  }
  EXPECT_ERROR(stream(file, 1000, false), "E-FORMAT-CONFIG", "a text of more than 1000 bytes");
  write_raw(folder / "zero", std::string("{}\0", 3));
  EXPECT_ERROR(stream(File::open(folder / "zero"), 1000, true), "E-FORMAT-CONFIG", "zero byte");
}

}  // namespace
}  // namespace plimsoll
