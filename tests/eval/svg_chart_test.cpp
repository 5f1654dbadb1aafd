#include "eval/svg_chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace pith {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
  return n;
}

LineChart two_points(bool log) {
  LineChart chart{"a chart", {.title = "x"}, {.title = "y", .log = log}, {}, true};
  chart.series.push_back({"one", series_style(0), {{1, 0.1, 0.05}, {2, 0.4}}});
  return chart;
}

TEST(Escaped, MarkupControlCharactersAndBrokenUtf8) {
  EXPECT_EQ(escaped("<a b=\"c\" & 'd'>"), "&lt;a b=&quot;c&quot; &amp; &#39;d&#39;&gt;");
  EXPECT_EQ(escaped(std::string("a\x01\0b", 4)), "ab");
  EXPECT_EQ(escaped("a\xFF\xC3\xA4"), "a\uFFFD\u00E4");
}

TEST(Ticks, AreRoundAndFew) {
  EXPECT_THAT(linear_ticks(0, 10, 6), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(linear_ticks(3, 3, 6), ElementsAre(3));
  const auto wide = log_ticks(0.01, 10, 7);
  EXPECT_LE(wide.size(), 7U);
  EXPECT_NEAR(wide.front(), 0.01, 1e-12);
  for (const auto& [low, high] : {std::pair(0.11, 0.42), {1e-9, 1e9}, {0.2, 0.21}, {2.0, 3.0}}) {
    const auto ticks = log_ticks(low, high, 7);
    EXPECT_GE(ticks.size(), 1U);
    EXPECT_LE(ticks.size(), 7U);
  }
}

TEST(Ticks, HaveShortTexts) {
  EXPECT_EQ(tick_text(0), "0");
  EXPECT_EQ(tick_text(0.002), "0.002");
  EXPECT_EQ(tick_text(0.1 * 3), "0.3");
  EXPECT_EQ(tick_text(20), "20");
  EXPECT_EQ(tick_text(1e-7), "1e-07");
}

TEST(SeriesStyle, TwentyFourPoliciesAreApart) {
  std::set<std::pair<int, int>> seen;
  for (int n = 0; n < kHues * kDashes; ++n) {
    const SeriesStyle style = series_style(n);
    seen.emplace(style.hue, style.dash);
  }
  EXPECT_EQ(seen.size(), size_t(kHues * kDashes));
}

TEST(LineChart, HasALineMarkersErrorBarsAndALabel) {
  const std::string svg = to_svg(two_points(true));
  EXPECT_THAT(svg, HasSubstr("aria-label=\"a chart\""));
  EXPECT_THAT(svg, HasSubstr("class=\"hue0 dash0\""));
  EXPECT_EQ(count(svg, "class=\"line\""), 1);
  EXPECT_EQ(count(svg, "class=\"dot\""), 2);
  EXPECT_EQ(count(svg, "class=\"error\""), 1);
}

TEST(LineChart, LeavesOutWhatItsAxesCannotShow) {
  LineChart chart = two_points(true);
  chart.series[0].points = {{1, 0}, {2, 0.5}, {3, std::nan("")}};
  EXPECT_EQ(count(to_svg(chart), "class=\"dot\""), 1);
  EXPECT_THAT(to_svg(chart), Not(HasSubstr("nan")));
  chart.series[0].points = {{1, 0}};
  EXPECT_EQ(count(to_svg(chart), "class=\"dot\""), 0);
  chart.series.clear();
  EXPECT_THAT(to_svg(chart), HasSubstr("</svg>"));
}

TEST(LineChart, EscapesNames) {
  LineChart chart = two_points(false);
  chart.label = "\"><script>";
  chart.series[0].name = "</title><script>";
  chart.x.title = "<b>";
  const std::string svg = to_svg(chart) + legend_html(chart.series);
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
  EXPECT_THAT(svg, Not(HasSubstr("<b>")));
}

TEST(BarChart, StacksPartsToTheFullWidth) {
  const std::string svg = to_svg(BarChart{"bars", {{"a", {3, 1}, "4 s"}, {"b", {0, 0}, "0 s"}}});
  EXPECT_THAT(svg, HasSubstr("class=\"bar part0\" x=\"0\" y=\"21\" width=\"330\""));
  EXPECT_THAT(svg, HasSubstr("class=\"bar part1\" x=\"330\" y=\"21\" width=\"110\""));
  EXPECT_EQ(count(svg, "<rect"), 2);
}

TEST(BarChart, ClipsLongNamesBetweenCharacters) {
  std::string name;
  for (int i = 0; i < 60; ++i) name += "\u00E4";
  EXPECT_THAT(to_svg(BarChart{"bars", {{name, {1}, "1"}}}), Not(HasSubstr("\uFFFD")));
}

TEST(HeatStrip, DrawsRunsOfAShade) {
  const HeatStrip strip{"kept", 4, {{255, 255, 0, 255}, {0, 1, 0, 0}}, {}, {}};
  const std::string svg = to_svg(strip);
  EXPECT_THAT(svg, HasSubstr("class=\"shade4\" d=\"M0 0.5h2m1 0h1\""));
  EXPECT_THAT(svg, HasSubstr("class=\"shade1\" d=\"M1 1.5h1\""));
  EXPECT_THAT(svg, HasSubstr("viewBox=\"0 0 4 2\""));
}

TEST(HeatMap, HasACellAFigureInStrengthsOfOneColour) {
  const std::string map = to_svg(HeatMap{"a map", "layer", "head", {{0, 0.5, 2}, {1, 1, 1}}});
  EXPECT_THAT(map, HasSubstr("aria-label=\"a map\""));
  EXPECT_THAT(map, HasSubstr("<g fill-opacity=\"0.25\"><rect class=\"heat\""));
  EXPECT_THAT(map, HasSubstr("<title>layer 2, head 0: 2</title>"));
  EXPECT_THAT(to_svg(HeatMap{"zeros", "x", "y", {{0, 0}}}), HasSubstr("fill-opacity=\"0\""));
  EXPECT_THAT(to_svg(HeatMap{"empty", "x", "y", {}}), HasSubstr("</svg>"));
}

}  // namespace
}  // namespace pith
