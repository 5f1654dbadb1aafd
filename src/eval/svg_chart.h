#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pith {

/// Charts as inline SVG, written here because no packaged charting library is worth the hundreds of
/// kilobytes that it would put into every page. Colours, dashes and font sizes are those of the
/// page's style sheet, by class, so that one SVG serves light and dark and any width.

/// `text` for HTML and SVG, in an element or a quoted attribute: & < > " ' escaped, control
/// characters dropped, bytes that are not UTF-8 as U+FFFD.
std::string escaped(std::string_view text);

inline constexpr int kHues = 6;
inline constexpr int kDashes = 4;

/// How a series is told apart: classes `hue<n>` (`muted` instead of a hue) and `dash<n>`, and a
/// marker whose shape goes with the hue.
struct SeriesStyle {
  int hue = 0;   ///< 0..kHues - 1
  int dash = 0;  ///< 0..kDashes - 1
  bool muted = false;
};

/// The style of the n-th series; neighbours differ in hue, and no two of kHues * kDashes agree.
SeriesStyle series_style(int n);

struct ChartPoint {
  double x = 0, y = 0;
  double error = 0;  ///< half length of the error bar; 0: none
};

struct ChartSeries {
  std::string name;
  SeriesStyle style;
  std::vector<ChartPoint> points;  ///< ascending in x
};

struct Tick {
  double value = 0;
  std::string text;
};

struct ChartAxis {
  std::string title;
  bool log = false;
  std::vector<Tick> ticks = {};               ///< chosen where there are none
  std::optional<double> low = {}, high = {};  ///< taken from the points where absent
};

/// Lines over two axes. On a logarithmic axis points that are not positive are left out.
struct LineChart {
  std::string label;  ///< what a screen reader says
  ChartAxis x, y;
  std::vector<ChartSeries> series;
  bool markers = true;
};

/// One horizontal bar of one or more parts, stacked.
struct Bar {
  std::string name;
  std::vector<double> parts;  ///< part i has class `part<i>`
  std::string value;          ///< written at the right
  double error = 0;           ///< half length of the error bar at the bar's end
  SeriesStyle style = {};     ///< of bars of a single part
};

struct BarChart {
  std::string label;
  std::vector<Bar> bars;
};

/// Shades of `rows` strips one above the other.
struct HeatStrip {
  std::string label;
  int columns = 0;
  std::vector<std::vector<uint8_t>> rows;     ///< [rows][columns], 0: nothing, 255: everything
  std::vector<Tick> row_ticks, column_ticks;  ///< at row and column numbers
};

/// A cell a figure, the stronger in colour the larger, with its name and text on hovering.
struct HeatMap {
  std::string label;
  std::string x_title, y_title;             ///< what columns and rows are
  std::vector<std::vector<double>> values;  ///< [rows][columns], none negative
  double high = 0;                          ///< value of the full colour; 0: the highest there is
};

std::string to_svg(const LineChart& chart);
std::string to_svg(const BarChart& chart);
std::string to_svg(const HeatStrip& chart);
std::string to_svg(const HeatMap& chart);

/// A list of the series' names, each with a piece of its line.
std::string legend_html(std::span<const ChartSeries> series);

/// Round numbers (1, 2 or 5 times a power of ten apart) in [low, high]: at most `most`, or one.
std::vector<double> linear_ticks(double low, double high, int most);
/// Numbers of the form {1, 2, 5} * 10^k, or {1, 3} or {1} where those are too many.
std::vector<double> log_ticks(double low, double high, int most);

/// Short form for a tick: 0.002, 0.5, 20, 3000.
std::string tick_text(double value);

}  // namespace pith
