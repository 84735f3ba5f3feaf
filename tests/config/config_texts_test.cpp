#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <string>

#include "cli/explain.h"
#include "cli/init.h"
#include "config/config_keys.h"
#include "formats/expect_error.h"
#include "formats/scratch_folder.h"
#include "models/all.h"

namespace plimsoll {
namespace {

TEST(Init, TextOfEveryPresetLoads) {
  const ScratchFolder folder;
  for (const std::string_view preset : model_preset_names()) {
    SCOPED_TRACE(preset);
    write_raw(folder / "run.toml", init_text(preset));
    const Config config = load_config(folder / "run.toml");
    EXPECT_EQ(config.model.preset, preset);
    EXPECT_TRUE(config.notes.empty());
  }
  EXPECT_ERROR(init_text("gpt3"), "E-CONFIG-PRESET", "gpt2-medium");
}

TEST(Init, ShowsEveryKeyWithItsComment) {
  const std::string text = init_text();
  for (const ConfigKey& key : config_keys()) {
    EXPECT_NE(text.find(std::string(leaf_of(key.name)) + " = "), std::string::npos) << key.name;
    EXPECT_NE(text.find("# " + std::string(key.comment) + "\n"), std::string::npos) << key.name;
  }
}

// Commented lines load too, unless they name files.
TEST(Init, CommentedLinesAreSettings) {
  const ScratchFolder folder;
  std::string text = init_text();
  text = std::regex_replace(text, std::regex("\n# ([a-z_]+ = )"), "\n$1");
  write_raw(folder / "run.toml", text);
  EXPECT_NO_THROW(load_config(folder / "run.toml")) << text;
}

std::set<std::string> codes_in_sources() {
  std::set<std::string> codes;
  const std::regex code("\"(E-[A-Z0-9]+(-[A-Z0-9]+)*)\"");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(std::string(PLIMSOLL_SOURCE_DIR) + "/src")) {
    if (!entry.is_regular_file() || entry.path().filename() == "explain_texts.cpp") continue;
    const std::string text = read_raw(entry.path());
    for (std::sregex_iterator it(text.begin(), text.end(), code), end; it != end; ++it) codes.insert((*it)[1]);
  }
  return codes;
}

TEST(Explain, EveryCodeOfTheSourcesHasAText) {
  const std::set<std::string> codes = codes_in_sources();
  EXPECT_GT(codes.size(), 30U);
  for (const std::string& code : codes) {
    EXPECT_NO_THROW({
      const std::string text = explain_code(code);
      EXPECT_TRUE(text.starts_with(code + "\n"));
    }) << code
       << " needs an entry in cli/explain_texts.cpp";
  }
}

TEST(Explain, TextsAreCompleteAndSorted) {
  const auto all = code_explanations();
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.code < b.code; }));
  for (const CodeExplanation& one : all) {
    for (const std::string_view text : {one.meaning, one.cause, one.remedy, one.command}) EXPECT_FALSE(text.empty()) << one.code;
  }
}

TEST(Explain, FindsAndSuggests) {
  EXPECT_NE(explain_code("E-PLAN-FIT").find("budget"), std::string::npos);
  EXPECT_EQ(explain_code("plan-fit"), explain_code("E-PLAN-FIT"));
  EXPECT_ERROR(explain_code("E-PLAN-FITS"), "E-EXPLAIN-CODE", "the nearest is E-PLAN-FIT");
  EXPECT_ERROR(explain_code(""), "E-EXPLAIN-CODE", "no error code");
}

}  // namespace
}  // namespace plimsoll
