#include "eval/svg_chart.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "eval/text_table.h"
#include "model/utf8.h"

namespace pith {
namespace {

// Units of a chart: text of 14 of them is legible where the chart is 350 pixels wide.
constexpr double kWidth = 440;
constexpr double kLeft = 58, kRight = 14, kTop = 28, kBottom = 50;
constexpr double kLineHeight = 290;

/// A number in steps of 1 / `per_unit`, in any locale; coordinates have one digit after the point.
std::string num(double value, double per_unit = 10) {
  char buffer[32];
  const double rounded = std::round(value * per_unit) / per_unit + 0.0;
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, rounded).ptr;
  return {buffer, end};
}

using Attributes = std::vector<std::pair<const char*, double>>;

std::string element(const std::string& name, const std::string& classes, const Attributes& values,
                    const std::string& inside = {}) {
  std::string out = "<" + name + " class=\"" + classes + "\"";
  for (const auto& [key, value] : values) {
    out += std::string(" ") + key + "=\"" + num(value) + "\"";
  }
  return out + (inside.empty() ? "/>" : ">" + inside + "</" + name + ">");
}

std::string text_at(double x, double y, const std::string& classes, const std::string& text) {
  return element("text", classes, {{"x", x}, {"y", y}}, escaped(text));
}

std::string line(double x1, double y1, double x2, double y2, const std::string& classes) {
  return element("line", classes, {{"x1", x1}, {"y1", y1}, {"x2", x2}, {"y2", y2}});
}

std::string svg(const std::string& label, double height, const std::string& inside) {
  return "<svg class=\"chart\" role=\"img\" aria-label=\"" + escaped(label) + "\" viewBox=\"0 0 " +
         num(kWidth) + " " + num(height) + "\">" + inside + "</svg>\n";
}

std::string classes_of(const SeriesStyle& style) {
  const std::string hue = style.muted ? "muted" : "hue" + std::to_string(style.hue);
  return hue + " dash" + std::to_string(style.dash);
}

/// A filled shape around (x, y), one a hue.
std::string marker(const SeriesStyle& style, double x, double y) {
  static constexpr std::array<const char*, kHues> kShapes = {
      "a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
      "m0 -4h8v8h-8z",
      "m4 -5l5 9h-10z",
      "l4 -5l4 5l-4 5z",
      "m4 5l5 -9h-10z",
      "m2.5 -4h3v2.5h2.5v3h-2.5v2.5h-3v-2.5h-2.5v-3h2.5z"};
  const char* shape =
      style.muted ? "m1 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0z" : kShapes[size_t(style.hue)];
  return "<path class=\"dot\" d=\"M" + num(x - 4) + " " + num(y) + shape + "\"/>";
}

/// Maps values of an axis to a stretch of the drawing.
class Scale {
 public:
  Scale(const ChartAxis& axis, double low, double high, double from, double to)
      : log_(axis.log), from_(from), to_(to) {
    low = axis.low.value_or(low);
    high = axis.high.value_or(high);
    if (log_) {
      // A twentieth of room, and at least a factor, so that one value alone lies in the middle.
      const double room = std::max(std::pow(high / low, 0.05), low < high ? 1.02 : 2.0);
      low_ = axis.low.value_or(low / room);
      high_ = axis.high.value_or(high * room);
      return;
    }
    const double room = low < high ? (high - low) * 0.05 : std::max(std::abs(high) * 0.1, 0.5);
    low_ = axis.low.value_or(low - room);
    high_ = axis.high.value_or(high + room);
  }

  double at(double value) const {
    const double share =
        log_ ? std::log(value / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
    return from_ + std::clamp(share, 0.0, 1.0) * (to_ - from_);
  }
  std::vector<Tick> ticks(const ChartAxis& axis, int most) const {
    if (!axis.ticks.empty()) return axis.ticks;
    std::vector<Tick> out;
    for (const double v : log_ ? log_ticks(low_, high_, most) : linear_ticks(low_, high_, most)) {
      out.push_back({v, tick_text(v)});
    }
    return out;
  }

 private:
  bool log_;
  double from_, to_, low_ = 0, high_ = 1;
};

bool can_show(const LineChart& chart, const ChartPoint& p) {
  return std::isfinite(p.x) && std::isfinite(p.y) && (!chart.x.log || p.x > 0) &&
         (!chart.y.log || p.y > 0);
}

Scale scale_of(const LineChart& chart, const ChartAxis& axis, double ChartPoint::* value,
               double from, double to) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const ChartSeries& series : chart.series) {
    for (const ChartPoint& p : series.points) {
      if (!can_show(chart, p)) continue;
      low = std::min(low, p.*value);
      high = std::max(high, p.*value);
    }
  }
  if (low > high) low = high = 1;
  return {axis, low, high, from, to};
}

std::string axes(const LineChart& chart, const Scale& x, const Scale& y) {
  const double bottom = kLineHeight - kBottom;
  std::string out;
  for (const Tick& tick : y.ticks(chart.y, 7)) {
    out += line(kLeft, y.at(tick.value), kWidth - kRight, y.at(tick.value), "grid");
    out += text_at(kLeft - 7, y.at(tick.value) + 4.5, "end", tick.text);
  }
  double last = -kWidth;
  for (const Tick& tick : x.ticks(chart.x, 6)) {
    const double at = x.at(tick.value);
    out += line(at, bottom, at, bottom + 4, "axis");
    if (at - last < 36) continue;  // the next one would touch this text
    out += text_at(at, bottom + 19, "middle", tick.text);
    last = at;
  }
  out += line(kLeft, bottom, kWidth - kRight, bottom, "axis");
  out += text_at(4, 14, "title", chart.y.title);
  return out +
         text_at((kLeft + kWidth - kRight) / 2, kLineHeight - 8, "middle title", chart.x.title);
}

std::string drawn(const LineChart& chart, const ChartSeries& series, const Scale& x,
                  const Scale& y) {
  std::string path, dots;
  for (const ChartPoint& p : series.points) {
    if (!can_show(chart, p)) continue;
    const double at = x.at(p.x), level = y.at(p.y);
    path += (path.empty() ? "M" : "L") + num(at) + " " + num(level);
    if (p.error > 0) {
      const double under = p.y - p.error;
      const double bottom = chart.y.log && under <= 0 ? kLineHeight - kBottom : y.at(under);
      dots += line(at, bottom, at, y.at(p.y + p.error), "error");
    }
    if (chart.markers) dots += marker(series.style, at, level);
  }
  if (path.empty()) return {};
  return "<g class=\"" + classes_of(series.style) + "\"><title>" + escaped(series.name) +
         "</title><path class=\"line\" d=\"" + path + "\"/>" + dots + "</g>";
}

/// As much of a name as fits above a bar beside its value.
std::string clipped(const std::string& name, size_t most) {
  if (name.size() <= most) return name;
  size_t end = most - 1;
  while (end > 0 && (name[end] & 0xC0) == 0x80) --end;
  return name.substr(0, end) + "\u2026";
}

double sum(const std::vector<double>& values) {
  double total = 0;
  for (const double v : values) total += v;
  return total;
}

std::string drawn(const Bar& bar, double top, double unit) {
  std::string out = text_at(0, top + 14, "name", clipped(bar.name, 44));
  out += text_at(kWidth, top + 14, "end", bar.value);
  double x = 0;
  for (size_t p = 0; p < bar.parts.size(); ++p) {
    const std::string fill =
        bar.parts.size() > 1 ? "part" + std::to_string(p) : classes_of(bar.style);
    const double width = bar.parts[p] * unit;
    if (width > 0) {
      out += element("rect", "bar " + fill,
                     {{"x", x}, {"y", top + 21}, {"width", std::max(width, 0.5)}, {"height", 10}});
    }
    x += width;
  }
  if (bar.error <= 0) return out;
  const double half = bar.error * unit;
  return out +
         line(std::max(0.0, x - half), top + 26, std::min(kWidth, x + half), top + 26, "whisker");
}

/// The cells of a shade as one path of runs, in steps relative to the one before.
std::string shade_path(const HeatStrip& chart, int shade, int shades) {
  const auto shade_of = [&](uint8_t v) { return v == 0 ? 0 : 1 + (v - 1) * shades / 255; };
  std::string path;
  for (size_t r = 0; r < chart.rows.size(); ++r) {
    const auto& row = chart.rows[r];
    int pen = 0;
    bool begun = false;
    for (int c = 0; c < chart.columns;) {
      int end = c;
      while (end < chart.columns && shade_of(row[size_t(end)]) == shade) ++end;
      if (end == c) {
        ++c;
        continue;
      }
      path += begun ? "m" + std::to_string(c - pen) + " 0"
                    : "M" + std::to_string(c) + " " + num(double(r) + 0.5);
      path += "h" + std::to_string(end - c);
      begun = true;
      pen = c = end;
    }
  }
  if (path.empty()) return {};
  return "<path class=\"shade" + std::to_string(shade) + "\" d=\"" + path + "\"/>";
}

/// A cell of the heat map's colour; `share` of it in [0, 1].
std::string heat(double x, double y, double width, double height, double share,
                 const std::string& title) {
  const std::string inside = title.empty() ? "" : "<title>" + escaped(title) + "</title>";
  return "<g fill-opacity=\"" + num(std::clamp(share, 0.0, 1.0), 1000) + "\">" +
         element("rect", "heat", {{"x", x}, {"y", y}, {"width", width}, {"height", height}},
                 inside) +
         "</g>";
}

/// Numbers along a side, so many apart that their texts do not touch.
int tick_step(size_t count, double cell, double text) {
  const int fits = std::max(1, int(double(count) * cell / text));
  int step = 1;
  while (int(count) > fits * step) step = step == 1 ? 2 : step == 2 ? 5 : step * 2;
  return step;
}

/// The colours from nothing to `high`.
std::string heat_key(double y, double high) {
  constexpr int kSteps = 8;
  constexpr double kCell = 14, kLeftEnd = kWidth - kSteps * kCell - 50;
  std::string out = text_at(kLeftEnd - 6, y + 11, "end", "0");
  for (int s = 0; s < kSteps; ++s) {
    out += heat(kLeftEnd + s * kCell, y, kCell, 12, double(s + 1) / kSteps, {});
  }
  return out + text_at(kLeftEnd + kSteps * kCell + 6, y + 11, "start", significant(high, 2));
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t good = find_invalid_utf8(text).value_or(text.size());
    for (const char c : text.substr(0, good)) {
      if (c == '&')
        out += "&amp;";
      else if (c == '<')
        out += "&lt;";
      else if (c == '>')
        out += "&gt;";
      else if (c == '"')
        out += "&quot;";
      else if (c == '\'')
        out += "&#39;";
      else if (uint8_t(c) >= 0x20 || c == '\n' || c == '\t')
        out += c;
    }
    text.remove_prefix(good);
    if (text.empty()) break;
    out += "\uFFFD";
    text.remove_prefix(1);
  }
  return out;
}

SeriesStyle series_style(int n) {
  return {.hue = n % kHues, .dash = n / kHues % kDashes, .muted = false};
}

std::string to_svg(const LineChart& chart) {
  const Scale x = scale_of(chart, chart.x, &ChartPoint::x, kLeft + 6, kWidth - kRight - 6);
  const Scale y = scale_of(chart, chart.y, &ChartPoint::y, kLineHeight - kBottom, kTop);
  std::string inside = axes(chart, x, y);
  for (const ChartSeries& series : chart.series) inside += drawn(chart, series, x, y);
  return svg(chart.label, kLineHeight, inside);
}

std::string to_svg(const BarChart& chart) {
  constexpr double kStep = 42;
  double longest = 0;
  for (const Bar& bar : chart.bars) longest = std::max(longest, sum(bar.parts) + bar.error);
  const double unit = longest > 0 ? kWidth / longest : 0;
  std::string inside;
  for (size_t b = 0; b < chart.bars.size(); ++b) {
    inside += "<g><title>" + escaped(chart.bars[b].name + ": " + chart.bars[b].value) + "</title>" +
              drawn(chart.bars[b], kStep * double(b), unit) + "</g>";
  }
  return svg(chart.label, kStep * double(std::max<size_t>(chart.bars.size(), 1)), inside);
}

std::string to_svg(const HeatStrip& chart) {
  constexpr int kShades = 4;
  constexpr double kMargin = 30, kFoot = 22;
  const auto n_rows = double(chart.rows.size());
  const double height = std::clamp(n_rows * 1.8, 60.0, 230.0);
  std::string cells;
  for (int s = 1; s <= kShades; ++s) cells += shade_path(chart, s, kShades);
  const double width = kWidth - kMargin;
  std::string inside =
      element("rect", "ground", {{"x", kMargin}, {"y", 8}, {"width", width}, {"height", height}});
  inside += "<svg class=\"cells\" preserveAspectRatio=\"none\" x=\"" + num(kMargin) +
            "\" y=\"8\" width=\"" + num(width) + "\" height=\"" + num(height) +
            "\" viewBox=\"0 0 " + std::to_string(std::max(chart.columns, 1)) + " " +
            num(std::max(n_rows, 1.0)) + "\">" + cells + "</svg>";
  for (const Tick& tick : chart.row_ticks) {
    inside += text_at(kMargin - 6, 13 + (tick.value + 0.5) / n_rows * height, "end", tick.text);
  }
  for (const Tick& tick : chart.column_ticks) {
    const double share = tick.value / std::max(chart.columns, 1);
    const char* anchor = share <= 0 ? "start" : share >= 1 ? "end" : "middle";
    inside += text_at(kMargin + share * width, height + kFoot + 2, anchor, tick.text);
  }
  return svg(chart.label, 8 + height + kFoot, inside);
}

std::string to_svg(const HeatMap& chart) {
  constexpr double kMargin = 34, kTopLine = 22;
  const size_t rows = chart.values.size(), columns = rows == 0 ? 0 : chart.values[0].size();
  double high = chart.high;
  for (const auto& row : chart.values) {
    for (const double v : row) high = chart.high > 0 ? high : std::max(high, v);
  }
  const double cell = (kWidth - kMargin) / double(std::max<size_t>(columns, 1));
  const double tall = std::clamp(110 / double(std::max<size_t>(rows, 1)), 6.0, 26.0);
  const double bottom = kTopLine + tall * double(rows);
  std::string inside = text_at(0, 12, "title", chart.y_title);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c) {
      const double v = chart.values[r][c];
      inside += heat(kMargin + double(c) * cell, kTopLine + double(r) * tall, cell - 0.6,
                     tall - 0.6, high > 0 ? v / high : 0,
                     chart.x_title + " " + std::to_string(c) + ", " + chart.y_title + " " +
                         std::to_string(r) + ": " + significant(v, 3));
    }
  }
  inside += element("rect", "ground",
                    {{"x", kMargin},
                     {"y", kTopLine},
                     {"width", kWidth - kMargin},
                     {"height", bottom - kTopLine}});
  for (size_t r = 0; r < rows; r += size_t(tick_step(rows, tall, 14))) {
    inside +=
        text_at(kMargin - 6, kTopLine + (double(r) + 0.5) * tall + 4.5, "end", std::to_string(r));
  }
  for (size_t c = 0; c < columns; c += size_t(tick_step(columns, cell, 24))) {
    inside += text_at(kMargin + (double(c) + 0.5) * cell, bottom + 16, "middle", std::to_string(c));
  }
  inside += text_at(kMargin, bottom + 38, "title", chart.x_title);
  return svg(chart.label, bottom + 44, inside + heat_key(bottom + 27, high));
}

std::string legend_html(std::span<const ChartSeries> series) {
  std::string out = "<ul class=\"legend\">";
  for (const ChartSeries& s : series) {
    out += "<li><svg class=\"key " + classes_of(s.style) +
           "\" viewBox=\"0 0 34 14\" aria-hidden=\"true\"><path class=\"line\" d=\"M1 7h32\"/>" +
           marker(s.style, 17, 7) + "</svg>" + escaped(s.name) + "</li>";
  }
  return out + "</ul>\n";
}

std::vector<double> linear_ticks(double low, double high, int most) {
  if (!(low < high)) return {low};
  const double rough = (high - low) / most;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0, 10.0, 20.0, 50.0}) {
    const double step = factor * power;
    const double first = std::ceil(low / step - 1e-9), last = std::floor(high / step + 1e-9);
    if (last - first + 1 > most) continue;
    std::vector<double> ticks;
    for (int i = 0; i <= int(last - first); ++i) ticks.push_back((first + i) * step);
    if (!ticks.empty()) return ticks;
  }
  return {low};
}

std::vector<double> log_ticks(double low, double high, int most) {
  if (!(low > 0 && low < high)) return {low};
  static const std::vector<std::vector<double>> kMantissas = {
      {1, 1.5, 2, 3, 4, 5, 6, 8}, {1, 2, 3, 5}, {1, 2, 5}, {1, 3}, {1}};
  std::vector<double> ticks;
  for (const auto& mantissas : kMantissas) {
    ticks.clear();
    for (int k = int(std::floor(std::log10(low))); k <= int(std::floor(std::log10(high))); ++k) {
      for (const double m : mantissas) {
        const double v = m * std::pow(10, k);
        if (v >= low * (1 - 1e-9) && v <= high * (1 + 1e-9)) ticks.push_back(v);
      }
    }
    if (int(ticks.size()) <= most) break;
  }
  if (ticks.empty()) return {low};
  // Over very many decades only every so many of them.
  const size_t step = (ticks.size() + size_t(most) - 1) / size_t(most);
  std::vector<double> few;
  for (size_t i = 0; i < ticks.size(); i += step) few.push_back(ticks[i]);
  return few;
}

std::string tick_text(double value) {
  char buffer[64];
  const bool plain = value == 0 || (std::abs(value) >= 1e-4 && std::abs(value) < 1e6);
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific,
                                 plain ? (std::abs(value) < 1 ? 5 : 2) : 0)
                       .ptr;
  std::string text(buffer, end);
  if (plain) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.ends_with('.')) text.pop_back();
  }
  return text == "-0" ? "0" : text;
}

}  // namespace pith
