#include <algorithm>
#include <functional>

#include "bench_report.h"
#include "break_even.h"
#include "eval/html_label.h"
#include "eval/html_page.h"
#include "eval/svg_chart.h"
#include "eval/text_table.h"

namespace pith::tools {
namespace {

/// One figure of a runner.
using Measure = std::function<double(const BenchResult&)>;

std::string name_of(const BenchResult& r) {
  if (r.peer || r.policy == "full") return r.policy;
  return short_label(r.policy) + " at " + r.budget;
}

std::string threads_text(int threads) {
  return std::to_string(threads) + (threads == 1 ? " thread" : " threads");
}

/// Those that differ in this, ascending.
std::vector<int> distinct(const BenchReport& report, int BenchResult::* what) {
  std::vector<int> out(report.results.size());
  std::ranges::transform(report.results, out.begin(), std::mem_fn(what));
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::vector<std::string> runners(const BenchReport& report) {
  std::vector<std::string> out;
  for (const BenchResult& r : report.results) {
    if (std::ranges::find(out, name_of(r)) == out.end()) out.push_back(name_of(r));
  }
  return out;
}

SeriesStyle style_of(const BenchReport& report, const BenchResult& r) {
  const auto all = runners(report);
  return series_style(int(std::ranges::find(all, name_of(r)) - all.begin()));
}

/// A line a runner over `x`, of the results that `wanted` says.
std::vector<ChartSeries> lines(const BenchReport& report, int BenchResult::* x,
                               const Measure& measure,
                               const std::function<bool(const BenchResult&)>& wanted) {
  std::vector<ChartSeries> out;
  for (const BenchResult& r : report.results) {
    if (!wanted(r)) continue;
    auto mine = std::ranges::find(out, name_of(r), &ChartSeries::name);
    if (mine == out.end()) {
      out.push_back({name_of(r), style_of(report, r), {}});
      mine = out.end() - 1;
    }
    mine->points.push_back({double(r.*x), measure(r)});
  }
  for (ChartSeries& series : out) std::ranges::sort(series.points, {}, &ChartPoint::x);
  return out;
}

std::vector<Tick> ticks_at(const std::vector<int>& values) {
  std::vector<Tick> out(values.size());
  std::ranges::transform(values, out.begin(), [](int v) { return Tick{double(v), grouped(v)}; });
  return out;
}

struct Chart {
  std::string heading, unit;
  Measure measure;
  std::function<bool(const BenchResult&)> wanted;
};

/// The runners of a phase: what policies share is shown once, as the full cache's.
std::vector<Chart> charts() {
  return {{"Reading the prompt", "tokens a second",
           [](const BenchResult& r) { return r.ctx / r.seconds("prefill"); },
           [](const BenchResult& r) { return r.peer || r.policy == "full"; }},
          {"Decoding", "ms a token", [](const BenchResult& r) { return 1e3 * r.token_seconds(); },
           [](const BenchResult&) { return true; }}};
}

/// Over lengths, or over numbers of threads, where there are several; else a bar a runner.
std::string chart_over(const BenchReport& report, const Chart& chart, int BenchResult::* x,
                       const std::string& title,
                       const std::function<bool(const BenchResult&)>& wanted) {
  const auto shown = [&](const BenchResult& r) { return wanted(r) && chart.wanted(r); };
  const std::string label = chart.heading + ", " + chart.unit;
  const auto values = distinct(report, x);
  if (values.size() > 1) {
    const auto series = lines(report, x, chart.measure, shown);
    return html_figure(label,
                       to_svg(LineChart{.label = label + " by " + title,
                                        .x = {.title = title, .ticks = ticks_at(values)},
                                        .y = {.title = chart.unit, .low = 0},
                                        .series = series}),
                       "");
  }
  BarChart bars{label, {}};
  for (const BenchResult& r : report.results) {
    if (!shown(r)) continue;
    const double value = chart.measure(r);
    bars.bars.push_back({name_of(r), {value}, significant(value, 3), 0, style_of(report, r)});
  }
  return html_figure(label, to_svg(bars), "");
}

std::string legend(const BenchReport& report) {
  return legend_html(lines(
      report, &BenchResult::ctx, [](const BenchResult&) { return 0.0; },
      [](const BenchResult&) { return true; }));
}

std::string speeds(const BenchReport& report) {
  const int most_threads = distinct(report, &BenchResult::threads).back();
  const int longest = distinct(report, &BenchResult::ctx).back();
  const bool by_length = distinct(report, &BenchResult::ctx).size() > 1;
  std::string out = html_section(by_length ? "Speed by length of the prompt"
                                           : "Speed at " + grouped(longest) + " tokens of prompt",
                                 "Medians, " + threads_text(most_threads) + ".") +
                    legend(report) + "<div class=\"two\">";
  for (const Chart& chart : charts()) {
    out += chart_over(report, chart, &BenchResult::ctx, "tokens of the prompt",
                      [&](const BenchResult& r) { return r.threads == most_threads; });
  }
  out += "</div>\n";
  if (!varies_threads(report)) return out;
  out += html_section("Speed by number of threads",
                      "Medians at " + grouped(longest) + " tokens of prompt.") +
         "<div class=\"two\">";
  for (const Chart& chart : charts()) {
    out += chart_over(report, chart, &BenchResult::threads, "threads",
                      [&](const BenchResult& r) { return r.ctx == longest; });
  }
  return out + "</div>\n";
}

/// Bars of prompt, compression and answer at the longest prompt with the most threads.
std::string answers(const BenchReport& report) {
  const int ctx = distinct(report, &BenchResult::ctx).back();
  const int threads = distinct(report, &BenchResult::threads).back();
  const std::string label = "Seconds to the last of " + std::to_string(kAnswerTokens) + " tokens";
  BarChart bars{label, {}};
  const auto add = [&](const std::string& name, double prefill, double extra, double token) {
    const double decode = kAnswerTokens * token;
    bars.bars.push_back(
        {name, {prefill, extra, decode}, fixed(prefill + extra + decode, 1) + " s"});
  };
  for (const BenchResult& r : report.results) {
    if (r.ctx == ctx && r.threads == threads && (r.peer || r.policy == "full")) {
      add(name_of(r), r.seconds("prefill"), 0, r.token_seconds());
    }
  }
  for (const BreakEven& e : break_evens(report.results)) {
    if (e.result->ctx == ctx && e.result->threads == threads) {
      add(name_of(*e.result), e.prefill_s, e.extra_s, e.token_s);
    }
  }
  return html_section("Where an answer's time goes", "From an empty cache, " + grouped(ctx) +
                                                         " tokens of prompt, " +
                                                         threads_text(threads) + ".") +
         "<ul class=\"legend\"><li class=\"part0\"><span class=\"swatch\"></span>reading the "
         "prompt</li><li class=\"part1\"><span class=\"swatch\"></span>compressing</li><li "
         "class=\"part2\"><span class=\"swatch\"></span>decoding</li></ul><div class=\"wide\">" +
         html_figure(label, to_svg(bars), "") + "</div>\n";
}

std::string break_even_section(const BenchReport& report) {
  std::string rows;
  for (const BreakEven& e : break_evens(report.results)) {
    rows += "<tr><th scope=\"row\" title=\"" + escaped(e.result->policy) + "\">" +
            escaped(name_of(*e.result)) + "</th>" +
            html_cells({grouped(e.result->ctx), std::to_string(e.result->threads),
                        fixed(1e3 * e.extra_s, 0), fixed(1e3 * (e.full_token_s - e.token_s), 2),
                        e.tokens() ? grouped(*e.tokens()) : "never"}) +
            "</tr>\n";
  }
  if (rows.empty()) return {};
  return html_section("When compression pays",
                      "What it costs once, what it saves on every token against the full cache, "
                      "and from which generated token on it has paid.") +
         html_table(
             "Break-even",
             {"Policy", "Prompt", "Threads", "Costs, ms", "Saves, ms a token", "Pays from token"},
             rows);
}

std::string phases_section(const BenchReport& report) {
  std::string rows;
  for (const BenchResult& r : report.results) {
    for (const PhaseSamples& p : r.phases) {
      const double seconds = r.seconds(p.phase);
      rows +=
          "<tr><th scope=\"row\">" + escaped(name_of(r)) + "</th>" +
          html_cells({grouped(r.ctx), std::to_string(r.threads), p.phase, fixed(1e3 * seconds, 1),
                      fixed(p.tokens / seconds, 1), bytes_text(double(p.peak_rss))}) +
          "</tr>\n";
    }
  }
  return "<h2>All figures</h2>\n<details><summary>Every phase</summary>" +
         html_table(
             "Phases",
             {"Runner", "Prompt", "Threads", "Phase", "Wall, ms", "Tokens a second", "Peak memory"},
             rows) +
         "</details>\n";
}

std::string verdict(const BenchReport& report) {
  auto evens = break_evens(report.results);
  if (evens.empty()) return "The full cache alone was timed.";
  const int threads = distinct(report, &BenchResult::threads).back();
  std::erase_if(evens, [&](const BreakEven& e) { return e.result->threads != threads; });
  const BreakEven& e = *std::ranges::max_element(
      evens, {}, [](const BreakEven& a) { return a.full_token_s / a.token_s; });
  return "Behind " + grouped(e.result->ctx) + " tokens " + name_of(*e.result) + " decodes " +
         fixed(e.full_token_s / e.token_s, 2) + " times as fast as the full cache" +
         (e.tokens() ? " and has paid for itself after " + grouped(*e.tokens()) + " tokens."
                     : ", and never pays for itself.");
}

}  // namespace

std::string to_html(const BenchReport& report) {
  const auto type = [](KvType t) { return std::string(kKvTypeNames.at(size_t(t))); };
  std::string bandwidth;
  for (const int threads : distinct(report, &BenchResult::threads)) {
    const auto& r = *std::ranges::find(report.results, threads, &BenchResult::threads);
    bandwidth += (bandwidth.empty() ? "" : ", ") + fixed(r.bandwidth / 1e9, 1) + " GB/s with " +
                 threads_text(threads);
  }
  return page_head("pith bench: " + file_name(report.model)) +
         "<header><h1>Speed of a compressed cache</h1>\n<p class=\"verdict\">" +
         escaped(verdict(report)) + "</p></header>\n<main>\n" + speeds(report) + answers(report) +
         break_even_section(report) + phases_section(report) +
         how_measured(report.command, report.model, report.machine,
                      html_entry("Cache", type(report.k_type) + " keys, " + type(report.v_type) +
                                              " values") +
                          html_entry("Memory", bandwidth),
                      {}) +
         "</main>\n<footer></footer></body></html>\n";
}

}  // namespace pith::tools
