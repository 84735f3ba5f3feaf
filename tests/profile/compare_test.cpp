// The comparison of two profiles adds up; files that are no profile are refused.
#include "profile/compare.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "formats/expect_error.h"
#include "formats/scratch_folder.h"

namespace plimsoll {
namespace {

using nlohmann::json;

json profile(double matmul, double adamw, double data, std::int64_t parameters, std::int64_t activations) {
  json ops = json::array({{{"op", "matmul"}, {"section", "micro"}, {"seconds", matmul}}});
  if (adamw > 0) ops.push_back({{"op", "adamw"}, {"section", "update"}, {"seconds", adamw}});
  return {{"schema", "plimsoll.profile/1"},
          {"update_seconds", matmul + adamw + data + 0.01},
          {"parts", {{"copies", 0.0}, {"data", data}, {"feed", 0.0}, {"other", 0.01}}},
          {"ops", ops},
          {"peak", json::array({{{"owner", "parameters"}, {"bytes", parameters}},
                                {{"owner", "activations"}, {"bytes", activations}},
                                {{"owner", "activations"}, {"bytes", 1}}})}};
}

TEST(ProfileDiff, AddsUpAndBeginsWithTheLargest) {
  const json diff = profile_diff("a", profile(0.5, 0, 0.1, 100, 40), "b", profile(0.4, 0.3, 0.15, 100, 90));
  double seconds = 0, bytes = 0, before = 1e9;
  for (const json& row : diff.at("seconds")) {
    EXPECT_DOUBLE_EQ(row.at("difference").get<double>(), row.at("b").get<double>() - row.at("a").get<double>());
    EXPECT_LE(std::abs(row.at("difference").get<double>()), before);
    before = std::abs(row.at("difference").get<double>());
    seconds += row.at("difference").get<double>();
  }
  for (const json& row : diff.at("bytes")) bytes += row.at("difference").get<double>();
  EXPECT_NEAR(seconds, diff.at("update_seconds").at("difference").get<double>(), 1e-12);
  EXPECT_EQ(bytes, diff.at("peak_bytes").at("difference").get<double>());
  EXPECT_EQ(diff.at("seconds").at(0).at("what"), "adamw");
  EXPECT_EQ(diff.at("seconds").at(0).at("section"), "update");
  EXPECT_EQ(diff.at("seconds").size(), 3U);  // equal rows are left out
  EXPECT_EQ(diff.at("bytes").size(), 1U);
  EXPECT_EQ(diff.at("bytes").at(0).at("owner"), "activations");
}

TEST(ProfileDiff, OfAProfileWithItselfIsEmpty) {
  const json one = profile(0.5, 0.1, 0.1, 100, 40), diff = profile_diff("a", one, "b", one);
  EXPECT_TRUE(diff.at("seconds").empty());
  EXPECT_TRUE(diff.at("bytes").empty());
}

TEST(ProfileDiff, NamesTheFileThatIsBroken) {
  const json good = profile(0.5, 0.1, 0.1, 100, 40);
  const auto broken = [&](const auto& change) {
    json bad = good;
    change(bad);
    EXPECT_ERROR(profile_diff("good.json", good, "bad.json", bad), "E-PROFILE-FILE", "bad.json");
  };
  broken([](json& bad) { bad.erase("ops"); });
  broken([](json& bad) { bad["ops"] = 3; });
  broken([](json& bad) { bad["ops"][0]["op"] = 3; });
  broken([](json& bad) { bad["ops"][0]["seconds"] = "much"; });
  broken([](json& bad) { bad["ops"][0]["seconds"] = 1e300; });
  broken([](json& bad) { bad["update_seconds"] = nullptr; });
  broken([](json& bad) { bad["update_seconds"] = 5.0; });  // the parts do not add up to it
  broken([](json& bad) { bad["parts"] = json::array(); });
  broken([](json& bad) { bad["peak"][1].erase("owner"); });
  broken([](json& bad) { bad["peak"][1]["bytes"] = -1; });
  broken([](json& bad) { bad["peak"][0]["bytes"] = bad["peak"][1]["bytes"] = 9e17; });
  broken([](json& bad) { bad["peak"][1]["owner"] = "a\nb"; });
  broken([](json& bad) { bad["ops"][0]["op"] = "\x1b[31m"; });
  broken([](json& bad) { bad["ops"][0]["section"] = "micro\x7f"; });
}

TEST(ProfileDiff, ReadsProfilesAlone) {
  const ScratchFolder folder;
  const auto file = [&](const char* name, const std::string& text) {
    write_raw(folder / name, text);
    return (folder / name).string();
  };
  EXPECT_EQ(read_profile(file("good.json", profile(0.5, 0.1, 0.1, 1, 1).dump()))["schema"], "plimsoll.profile/1");
  for (const char* text : {"", "{", "[]", "3", "{\"schema\": \"plimsoll.plan/1\"}", "{\"schema\": 7}", "\xff\xfe"}) {
    const std::string path = file("bad.json", text);
    EXPECT_ERROR(read_profile(path), "E-PROFILE-FILE", "bad.json");
  }
  const std::string deep = file("deep.json", std::string(100000, '['));
  EXPECT_ERROR(read_profile(deep), "E-PROFILE-FILE", "deep.json");
  EXPECT_ERROR(read_profile((folder / "absent.json").string()), "E-PROFILE-FILE", "absent.json");
}

}  // namespace
}  // namespace plimsoll
