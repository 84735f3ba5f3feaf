// Broken and odd templates: each ends in a text or in E-CHAT-TEMPLATE, within its bounds. PLIMSOLL_FUZZ_SEED=N runs one seed.
// PLIMSOLL_FUZZ_SEEDS=N runs the first N seeds (default 20,000).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "base/error.h"
#include "formats/jinja/json_value.h"
#include "formats/jinja/template.h"
#include "formats/utf8.h"

namespace plimsoll {
namespace {

using jinja::Origin;
using jinja::RenderInput;
using jinja::Template;

const std::filesystem::path kChat = std::filesystem::path(PLIMSOLL_SOURCE_DIR) / "tests/chat";

class Fuzzer {
 public:
  Fuzzer() {
    std::ifstream file(kChat / "snippets.json");
    std::stringstream text;
    text << file.rdbuf();
    const nlohmann::json goldens = nlohmann::json::parse(text.str());
    for (const auto& each : goldens["snippets"]) sources_.push_back(each["template"]);
    for (const auto& entry : std::filesystem::directory_iterator(kChat / "templates")) {
      std::ifstream in(entry.path());
      std::stringstream source;
      source << in.rdbuf();
      if (entry.path().extension() == ".jinja") sources_.push_back(source.str());
    }
    std::ranges::sort(sources_);
    const jinja::Value all = jinja::parse_json(text.str(), Origin::data).value;
    for (const auto& [name, value] : all.dict()->find("values")->dict()->items()) {
      input_.variables.emplace_back(name.text()->bytes(), value);
    }
    input_.limits.steps = 200'000;
    input_.limits.bytes = 1 << 20;
    input_.limits.output = 1 << 18;
  }

  void run(unsigned seed) {
    SCOPED_TRACE("PLIMSOLL_FUZZ_SEED=" + std::to_string(seed));
    random_.seed(seed);
    std::string source = any_source();
    for (unsigned edits = number(6); edits > 0; --edits) edit(source);
    SCOPED_TRACE(source.substr(0, 4000));
    try {
      const jinja::Text text = Template(source, "t").render(input_).text;
      EXPECT_EQ(utf8_valid_prefix(text.bytes()), text.size());
      std::size_t done = 0;
      for (const jinja::TextRange& range : text.data()) {
        EXPECT_TRUE(range.begin >= done && range.begin < range.end && range.end <= text.size());
        done = range.end;
      }
      for (const jinja::Mark& mark : text.marks()) EXPECT_TRUE(mark.begin <= mark.end && mark.end <= text.size());
      ++rendered;
    } catch (const Error& error) {
      EXPECT_EQ(error.code, "E-CHAT-TEMPLATE") << error.what();
      ++refused;
    }
  }

  int rendered = 0, refused = 0;

 private:
  unsigned number(std::size_t below) {
    return std::uniform_int_distribution<unsigned>(0, static_cast<unsigned>(below) - 1)(random_);
  }
  const std::string& any_source() { return sources_[number(sources_.size())]; }

  void edit(std::string& source) {
    static const std::vector<std::string> kParts{"{{",
                                                 "}}",
                                                 "{%",
                                                 "%}",
                                                 "{#",
                                                 "#}",
                                                 "-",
                                                 "+",
                                                 "(",
                                                 ")",
                                                 "[",
                                                 "]",
                                                 "{",
                                                 "}",
                                                 "|",
                                                 ".",
                                                 ",",
                                                 ":",
                                                 "'",
                                                 "\"",
                                                 "\\",
                                                 "~",
                                                 " is ",
                                                 " in ",
                                                 " not ",
                                                 " if ",
                                                 " else ",
                                                 " for ",
                                                 "{% endif %}",
                                                 "{% endfor %}",
                                                 "{% set x = text %}",
                                                 "{{ x }}",
                                                 "{% macro f(a) %}{{ f(a) }}{% endmacro %}",
                                                 "{{ f(1) }}",
                                                 "{% for i in range(99999) %}",
                                                 "{% raw %}",
                                                 "{% generation %}",
                                                 "{% endgeneration %}",
                                                 " ** 9",
                                                 " * 99999",
                                                 "|list",
                                                 "|tojson",
                                                 "|join",
                                                 "|sort",
                                                 "|upper",
                                                 "|length",
                                                 "[::-1]",
                                                 "[:",
                                                 "\xff",
                                                 "\u4f60",
                                                 "9223372036854775807",
                                                 "1e308",
                                                 "-1",
                                                 ".items()",
                                                 ".split()",
                                                 "messages",
                                                 "loop.",
                                                 "nested",
                                                 "odd",
                                                 "namespace(a=1)",
                                                 "{% set ns.a = ns %}",
                                                 "\n",
                                                 "   "};
    const std::size_t at = number(source.size() + 1);
    switch (number(6)) {
      case 0:
      case 1: source.insert(at, kParts[number(kParts.size())]); break;
      case 2: source.erase(at, number(12)); break;
      case 3: {  // a part of another one
        const std::string& other = any_source();
        const std::size_t from = number(other.size() + 1);
        source.insert(at, other.substr(from, number(120)));
        break;
      }
      case 4: {  // a part of itself again
        const std::string part = source.substr(at, number(60));
        source.insert(number(source.size() + 1), part);
        break;
      }
      default:
        if (at < source.size()) source[at] = static_cast<char>(number(256));
    }
  }

  std::mt19937 random_;
  std::vector<std::string> sources_;
  RenderInput input_;
};

TEST(JinjaFuzz, EndsInTextOrAnError) {
  Fuzzer fuzzer;
  if (const char* seed = std::getenv("PLIMSOLL_FUZZ_SEED"); seed != nullptr) {
    return fuzzer.run(static_cast<unsigned>(std::atoi(seed)));
  }
  const char* seeds = std::getenv("PLIMSOLL_FUZZ_SEEDS");
  const int count = seeds != nullptr ? std::atoi(seeds) : 20'000;
  for (int seed = 1; seed <= count && !::testing::Test::HasFailure(); ++seed) fuzzer.run(static_cast<unsigned>(seed));
  EXPECT_GT(fuzzer.rendered, count / 10);
  EXPECT_GT(fuzzer.refused, count / 10);
}

}  // namespace
}  // namespace plimsoll
