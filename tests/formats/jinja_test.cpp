// Templates against jinja2 in the environment of transformers (tests/chat/make_goldens.py), their limits, and the sources of
// their texts.
#include "formats/jinja/template.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "formats/jinja/json_value.h"

namespace plimsoll {
namespace {

using jinja::Mark;
using jinja::Origin;
using jinja::Rendering;
using jinja::RenderInput;
using jinja::Template;
using jinja::TextRange;
using jinja::Value;
using Json = nlohmann::ordered_json;

std::string read(const std::string& name) {
  std::ifstream file(PLIMSOLL_SOURCE_DIR "/tests/chat/" + name, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

RenderInput input_of(const Value& values, std::time_t now = 0) {
  RenderInput input;
  for (const auto& [name, value] : values.dict()->items()) input.variables.emplace_back(name.text()->bytes(), value);
  gmtime_r(&now, &input.now);
  return input;
}

RenderInput values(std::string_view json) { return input_of(jinja::parse_json(json, Origin::data).value); }

std::string rendered(std::string_view source, std::string_view json = "{}") {
  return Template(source, "t").render(values(json)).text.bytes();
}

// The message of the error; empty where there is none.
std::string fault(std::string_view source, std::string_view json = "{}", jinja::RenderLimits limits = {}) {
  try {
    RenderInput input = values(json);
    input.limits = limits;
    Template(source, "file.jinja").render(input);
  } catch (const Error& error) {
    EXPECT_EQ(error.code, "E-CHAT-TEMPLATE");
    EXPECT_TRUE(error.where.starts_with("file.jinja, line ")) << error.where;
    return error.message;
  }
  return "";
}

TEST(Jinja, RendersWhatJinja2Renders) {
  const std::string text = read("snippets.json");
  const Json goldens = Json::parse(text);
  // Read by the parser under test, so that numbers keep their digits.
  const Value all = jinja::parse_json(text, Origin::data).value;
  const RenderInput input = input_of(*all.dict()->find("values"), goldens["now"].get<std::time_t>());
  ASSERT_GT(goldens["snippets"].size(), 150u);
  for (const Json& each : goldens["snippets"]) {
    const std::string source = each["template"].get<std::string>();
    try {
      const Rendering result = Template(source, "t").render(input);
      if (each.contains("fails")) {
        ADD_FAILURE() << source << "\nrenders " << result.text.bytes() << "\nand should fail: " << each["fails"];
        continue;
      }
      EXPECT_EQ(result.text.bytes(), each["text"].get<std::string>()) << source;
      Json marks = Json::array();
      for (const Mark& mark : result.text.marks()) marks.push_back({mark.begin, mark.end});
      EXPECT_EQ(marks, each.value("marks", Json::array())) << source;
    } catch (const Error& error) {
      EXPECT_EQ(error.code, "E-CHAT-TEMPLATE") << source;
      EXPECT_TRUE(each.contains("fails")) << source << "\nfails: " << error.message;
    }
  }
}

TEST(Jinja, ErrorsNameTheLine) {
  try {
    Template("a\n{% if x %}\n{{ x.y.z }}{% endif %}", "file.jinja").render(values(R"({"x": {"a": 1}})"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.where, "file.jinja, line 3");
    EXPECT_EQ(error.message, "'dict object' has no attribute 'y'");
  }
  EXPECT_EQ(fault("{{ raise_exception('only ' ~ n ~ ' turns') }}", R"({"n": 2})"), "only 2 turns");
}

TEST(Jinja, KnowsWhichBytesAreData) {
  const auto ranges = [](std::string_view source) {
    return Template(source, "t").render(values(R"({"x": "data", "list": ["a", "bb"], "dict": {"k": "v"}})")).text.data();
  };
  EXPECT_EQ(ranges("<{{ x }}>"), (std::vector<TextRange>{{1, 5}}));
  EXPECT_EQ(ranges("{{ x ~ '-' ~ x }}"), (std::vector<TextRange>{{0, 4}, {5, 9}}));
  EXPECT_EQ(ranges("{{ ('<' + x + '>').upper() }}"), (std::vector<TextRange>{{1, 5}}));
  EXPECT_EQ(ranges("{{ x[1:3] }}{{ x[::-1] }}{{ ('a' + x)[:3] }}"), (std::vector<TextRange>{{0, 6}, {7, 9}}));
  EXPECT_EQ(ranges("{{ x | replace('at', '__') }}"), (std::vector<TextRange>{{0, 1}, {3, 4}}));
  EXPECT_EQ(ranges("{{ list | join(', ') }}"), (std::vector<TextRange>{{0, 1}, {3, 5}}));
  EXPECT_EQ(ranges("{{ dict | tojson }}"), (std::vector<TextRange>{{2, 3}, {7, 8}}));
  EXPECT_EQ(ranges("{{ x.split('a') }}"), (std::vector<TextRange>{{2, 3}, {7, 8}}));  // ['d', 't', '']
  EXPECT_EQ(ranges("{% set y %}({{ x }}){% endset %}{{ y | trim('(') }}{% macro m(a) %}[{{ a }}]{% endmacro %}{{ m(x) }}"),
            (std::vector<TextRange>{{0, 4}, {6, 10}}));
  EXPECT_EQ(ranges("{{ x | length }}{{ 'x' in x }}"), (std::vector<TextRange>{}));
  // Operations see the text as it is.
  EXPECT_EQ(rendered("{{ 'b</a>c' in x }} {{ x.split('</a>')[-1] }} {{ x.startswith('<a') }}", R"({"x": "<a>b</a>c"})"),
            "True c True");
}

TEST(Jinja, MarksKnowTheirMessage) {
  const auto marks = [](std::string_view source) {
    return Template(source, "t")
        .render(values(R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "answer"}]})"))
        .text.marks();
  };
  EXPECT_EQ(marks("{% for m in messages %}{{ m.role }}:{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
                  "{% endgeneration %}{% endif %}{% endfor %}"),
            (std::vector<Mark>{{15, 21, 1}}));
  EXPECT_EQ(
      marks("{% for i in range(2) %}{% set m = messages[i] %}{% for x in [1] %}{% generation %}{{ m.content }}{% endgeneration %}"
            "{% endfor %}{% endfor %}"),
      (std::vector<Mark>{{0, 1, 0}, {1, 7, 1}}));
  // They move with the text of a macro, where jinja2 loses them.
  EXPECT_EQ(marks("{% macro f(m) %}<{% generation %}{{ m.content }}{% endgeneration %}>{% endmacro %}a{{ f(messages[1]) }}"),
            (std::vector<Mark>{{2, 8, -1}}));
  EXPECT_TRUE(Template("{% generation %}{% endgeneration %}", "t").has_marks());
  EXPECT_FALSE(Template("generation", "t").has_marks());
}

TEST(Jinja, ReadsTheClockOnlyWhereItIsAsked) {
  RenderInput input;
  const std::time_t now = 86400;
  gmtime_r(&now, &input.now);
  const Rendering with = Template("{{ strftime_now('%d %b %Y') }}", "t").render(input);
  EXPECT_EQ(with.text.bytes(), "02 Jan 1970");
  EXPECT_TRUE(with.read_clock);
  EXPECT_FALSE(Template("{% if strftime_now is defined %}x{% endif %}", "t").render(input).read_clock);
}

TEST(Jinja, EndsWithinItsBounds) {
  const std::string ten = "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}";
  jinja::RenderLimits limits;
  limits.steps = 1'000'000;
  EXPECT_EQ(fault(ten, "{}", limits), "it takes too many steps");
  EXPECT_EQ(fault("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), "it calls itself too deeply");
  EXPECT_EQ(fault("{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}"),
            "it makes too much");
  EXPECT_EQ(fault("{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}"),
            "it makes too much");
  EXPECT_EQ(fault("{{ 'x' * 99999999999 }}"), "it takes too many steps");
  EXPECT_EQ(fault("{{ 'x' * 999999999 }}"), "it makes too much");
  EXPECT_EQ(fault("{{ [1] * 9223372036854775807 }}"), "a value is too long");
  EXPECT_EQ(fault("{% set ns = namespace(x=1) %}{% for i in range(1000) %}{% set ns.x = [ns.x] %}{% endfor %}"),
            "a value is nested too deeply");
  // Small values with a large output.
  EXPECT_EQ(fault("{% set ns = namespace(x=[1]) %}{% for i in range(100) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}"),
            "it takes too many steps");
  EXPECT_EQ(fault("{% set ns = namespace(x=[1]) %}{% for i in range(100) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}"
                  "{{ ns.x == [ns.x[0], ns.x[1]] }}"),
            "it takes too many steps");
  limits = {};
  limits.output = 1000;
  EXPECT_EQ(fault("{% for i in range(300) %}abcd{% endfor %}", "{}", limits), "it writes too much");
  EXPECT_EQ(fault("{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}"), "it is nested deeper than 200");
  std::string sum = "{{ 1";
  for (int i = 0; i < 5000; ++i) sum += " + 1";
  EXPECT_EQ(fault(sum + " }}"), "it is nested deeper than 200");
  std::string blocks;
  for (int i = 0; i < 5000; ++i) blocks += "{% if true %}";
  EXPECT_EQ(fault(blocks), "it is nested deeper than 200");
  EXPECT_EQ(fault("{{ [].count() }}"), "'count' lacks its argument 'value'");
  EXPECT_NE(fault(std::string((1 << 20) + 1, 'x')), "");
  EXPECT_NE(fault("\xff"), "");
}

TEST(Jinja, RefusesWhatItDoesNotCompute) {
  for (const char* source : {"{% block x %}{% endblock %}", "{% extends 'x' %}", "{% import 'x' as y %}", "{% include 'x' %}",
                             "{% for x in [] recursive %}{% endfor %}"}) {
    EXPECT_NE(fault(source).find("not supported"), std::string::npos) << source;
  }
}

TEST(Jinja, JsonKeepsOrderAndDigits) {
  const std::string text = R"({"b": 1, "a": [1.0, -0, 123456789012345678901234567890, 1e3], "b": {"z": null, "y": true}})";
  EXPECT_EQ(rendered("{{ x | tojson }}", R"({"x": )" + text + "}"),
            R"({"b": {"z": null, "y": true}, "a": [1.0, 0, 123456789012345678901234567890, 1000.0]})");
  EXPECT_EQ(jinja::parse_json("[1, 2", Origin::data).fault.substr(0, 6), "line 1");
  EXPECT_EQ(jinja::parse_json(std::string(101, '[') + std::string(101, ']'), Origin::data).fault, "it is nested deeper than 100");
  EXPECT_NE(jinja::parse_json("\"\xff\"", Origin::data).fault, "");
  EXPECT_NE(jinja::parse_json(R"("\ud800")", Origin::data).fault, "");
}

}  // namespace
}  // namespace plimsoll
