// Text from files in the page: nothing of it is markup, and the page stays valid.
#include "report/html.h"

#include <gtest/gtest.h>

#include <cmath>

#include "report/axis.h"
#include "report/figure.h"

namespace plimsoll {
namespace {

TEST(Escaped, MarkupBecomesText) {
  EXPECT_EQ(escaped("<script>alert('1')</script>"), "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;");
  EXPECT_EQ(escaped("a & \"b\""), "a &amp; &quot;b&quot;");
}

TEST(Escaped, ControlCharactersAndMarksOfDirectionBecomeNumbers) {
  EXPECT_EQ(escaped(std::string_view("a\0b\x1b[31m\x7f", 9)), "a\\x00b\\x1b[31m\\x7f");
  EXPECT_EQ(escaped("x\u202ey"), "x\\u202ey");
  EXPECT_EQ(escaped("\uFFFE\uFDD0"), "\\ufffe\\ufdd0");
  EXPECT_EQ(escaped("\u0085"), "\\x85");
  EXPECT_EQ(escaped("two\nlines"), "two lines");
}

TEST(Escaped, BytesThatAreNotUtf8AreReplaced) {
  EXPECT_EQ(escaped("\xff\xc3"), "\uFFFD\uFFFD");
  EXPECT_EQ(escaped("grün 日本 🚢"), "grün 日本 🚢");
}

TEST(Shortened, CutsAtCharacters) {
  EXPECT_EQ(shortened("abc", 3), "abc");
  const std::string text = shortened("ääääääääää", 7);
  EXPECT_EQ(escaped(text), text);
}

TEST(Ticks, LieWithinTheScaleAtRoundNumbers) {
  for (const auto& [low, high] : {std::pair(0.0, 10.0), {0.8466, 5.53}, {-3.0, 4.0}, {1e-9, 2e-9}, {1e12, 1.00001e12}}) {
    const Scale scale = scale_of(low, high, false, false);
    const std::vector<AxisTick> ticks = ticks_of(scale, 6, NumberKind::plain);
    EXPECT_GE(ticks.size(), 2U) << low;
    EXPECT_LE(ticks.size(), 8U) << low;
    for (const AxisTick& tick : ticks) EXPECT_TRUE(tick.share >= 0 && tick.share <= 1);
  }
}

TEST(Ticks, AWideRangeIsLogarithmic) {
  const Scale scale = scale_of(1e-3, 1e9, false, true);
  EXPECT_TRUE(scale.logarithmic);
  EXPECT_LE(ticks_of(scale, 6, NumberKind::plain).size(), 8U);
  EXPECT_FALSE(scale_of(0, 1e9, false, true).logarithmic);
  EXPECT_FALSE(scale_of(1, 2, false, true).logarithmic);
}

TEST(Figures, EachHasATextAndSurvivesStrangeNumbers) {
  for (const double y : {0.0, -1.0, 1e300, 5e-324}) {
    LineChart chart;
    chart.id = "c", chart.title = "T<", chart.description = "D&", chart.may_be_logarithmic = true;
    chart.lines.push_back({"a", 0, Line::Kind::line, {{0, 1}, {1, y}, {2, 3}}});
    const std::string html = html_of(chart);
    EXPECT_NE(html.find("role=\"img\" aria-labelledby=\"c-t c-d\""), std::string::npos);
    EXPECT_NE(html.find("<title id=\"c-t\">T&lt;</title><desc id=\"c-d\">D&amp;</desc>"), std::string::npos);
    EXPECT_EQ(html.find("nan"), std::string::npos);
    EXPECT_EQ(html.find("inf"), std::string::npos);
  }
  EXPECT_EQ(html_of(LineChart()), "");
  EXPECT_EQ(html_of(AreaChart()), "");
}

}  // namespace
}  // namespace plimsoll
