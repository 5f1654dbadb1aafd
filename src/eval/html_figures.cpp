#include "eval/html_figures.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "eval/html_page.h"
#include "eval/text_table.h"

namespace pith {
namespace {

/// One figure of a case, and half the length of its error bar.
using Measure = std::function<ChartPoint(const PageCase&)>;

/// A line a policy over kept share.
std::vector<ChartSeries> lines(const PageData& data, const Measure& measure) {
  std::vector<ChartSeries> out;
  for (const std::string& policy : data.policies) {
    const auto cases = data.of_policy(policy);
    ChartSeries series{cases[0]->label, cases[0]->style, {}};
    for (const PageCase* c : cases) {
      ChartPoint p = measure(*c);
      p.x = 100 * c->kept_share();
      series.points.push_back(p);
    }
    out.push_back(std::move(series));
  }
  return out;
}

ChartAxis share_axis(const PageData& data) {
  ChartAxis axis{.title = "kept share, %", .log = true};
  for (const std::string& budget : data.budgets) {
    const double share = 100 * data.ranked(budget)[0]->kept_share();
    axis.ticks.push_back({share, significant(share, 3)});
  }
  std::ranges::sort(axis.ticks, {}, &Tick::value);
  return axis;
}

/// Over kept share where there are several budgets, else a bar a policy, the best first.
std::string chart_of(const PageData& data, const std::string& label, const ChartAxis& y,
                     const Measure& measure) {
  if (data.budgets.size() > 1) {
    return to_svg(LineChart{label, share_axis(data), y, lines(data, measure)});
  }
  BarChart bars{label, {}};
  for (const PageCase* c : data.ranked(data.budgets[0])) {
    const ChartPoint p = measure(*c);
    bars.bars.push_back({c->label, {p.y}, significant(p.y, 3), p.error, c->style});
  }
  return to_svg(bars);
}

std::string legend_of(const PageData& data) {
  return legend_html(lines(data, [](const PageCase&) { return ChartPoint{}; }));
}

/// Mean over rows of each scored position's KL, in buckets of equal size.
ChartSeries by_position(const PageCase& page) {
  constexpr size_t kBuckets = 24;
  size_t longest = 0;
  for (const RowFidelity& row : *page.rows) longest = std::max(longest, row.kl.size());
  const size_t buckets = std::min(kBuckets, longest);
  ChartSeries series{page.label, page.style, {}};
  for (size_t b = 0; b < buckets; ++b) {
    const size_t first = b * longest / buckets, end = (b + 1) * longest / buckets;
    std::vector<double> values;
    for (const RowFidelity& row : *page.rows) {
      for (size_t j = first; j < std::min(end, row.kl.size()); ++j) values.push_back(row.kl[j]);
    }
    series.points.push_back({double(first + end + 1) / 2, mean(values)});
  }
  return series;
}

PhaseTimes times_of(const PageCase& page) {
  PhaseTimes total;
  for (const RowFidelity& row : *page.rows) {
    total.prefill += row.receipt.time_s.prefill;
    total.observe += row.receipt.time_s.observe;
    total.score += row.receipt.time_s.score;
    total.select += row.receipt.time_s.select;
    total.apply += row.receipt.time_s.apply;
  }
  return total;
}

std::string parts_legend(const std::vector<std::string>& names) {
  std::string out = "<ul class=\"legend\">";
  for (size_t p = 0; p < names.size(); ++p) {
    out += "<li><span class=\"swatch part" + std::to_string(p) + "\"></span>" + names[p] + "</li>";
  }
  return out + "</ul>";
}

std::string time_figures(const std::vector<const PageCase*>& cases) {
  BarChart chart{"Seconds to choose what stays, by policy and phase", {}};
  for (const PageCase* c : cases) {
    const PhaseTimes t = times_of(*c);
    chart.bars.push_back(
        {c->label, {t.score, t.select, t.apply}, fixed(t.score + t.select + t.apply, 3) + " s"});
  }
  const PhaseTimes once = times_of(*cases[0]);
  const BarChart reading{"Seconds to read the text, once for all policies",
                         {{"once for all policies",
                           {once.prefill, once.observe},
                           fixed(once.prefill + once.observe, 2) + " s"}}};
  return html_figure("Time to choose", parts_legend({"score", "select", "apply"}) + to_svg(chart),
                     "Sum over the rows.") +
         html_figure("Time to read the text",
                     parts_legend({"prefill", "observe"}) + to_svg(reading),
                     "Spent before any policy is asked; sum over the rows.");
}

std::string picture(const PageCase& page) {
  const KeptPicture& kept = *(*page.rows)[0].kept;
  HeatStrip strip{page.label + ": kept entries by layer, head and position", 0, kept.rows, {}, {}};
  strip.columns = kept.rows.empty() ? 0 : int(kept.rows[0].size());
  const int step = std::max(1, kept.n_layer / 3);
  for (int layer = 0; layer < kept.n_layer; layer += step) {
    strip.row_ticks.push_back({double(layer * kept.n_head_kv), std::to_string(layer)});
  }
  strip.column_ticks = {{0, "0"},
                        {strip.columns / 2.0, "position"},
                        {double(strip.columns), grouped(kept.n_positions - 1)}};
  return html_figure(page.label, to_svg(strip), "");
}

}  // namespace

std::string quality_figures(const PageData& data) {
  if (data.policies.empty()) return {};
  const Measure kl = [](const PageCase& c) {
    return ChartPoint{0, c.summary.kl_mean, c.summary.kl_se};
  };
  const Measure top = [](const PageCase& c) { return ChartPoint{0, 100 * c.summary.same_top, 0}; };
  return html_section(
             "Quality against kept share",
             "How far the next-token predictions move when only a part of the cache is kept. "
             "Bars are standard errors. Grey: random and streaming, which any method has to "
             "beat.") +
         (data.budgets.size() > 1 ? legend_of(data) : "") + "<div class=\"two\">" +
         html_figure("Mean KL: lower is better",
                     chart_of(data, "Mean KL by kept share, a line a policy",
                              {.title = "KL, nats (log)", .log = true}, kl),
                     "") +
         html_figure(
             "Same likeliest token: higher is better",
             chart_of(data, "Share of positions with the same likeliest token, by kept share",
                      {.title = "same top, %"}, top),
             "") +
         "</div>\n";
}

std::string kind_figures(const PageData& data) {
  if (data.kinds.size() < 2 || data.policies.empty()) return {};
  double low = INFINITY, high = 0;
  for (const PageCase& c : data.cases) {
    for (const auto& [kind, k] : c.summary.per_kind) {
      if (k.kl > 0) low = std::min(low, k.kl);
      high = std::max(high, k.kl);
    }
  }
  ChartAxis y{.title = "KL, nats (log)", .log = true};
  if (low < high) y.low = low / 1.2, y.high = high * 1.2;
  std::string out = html_section("By kind of row", "Mean KL of each kind, all on one scale.") +
                    "<div class=\"two\">";
  for (const std::string& kind : data.kinds) {
    int n = 0;
    const Measure kl = [&](const PageCase& c) {
      const auto found = c.summary.per_kind.find(kind);
      if (found == c.summary.per_kind.end()) return ChartPoint{0, NAN, 0};
      n = found->second.n;
      return ChartPoint{0, found->second.kl, 0};
    };
    const std::string chart = chart_of(data, "Mean KL of kind " + kind, y, kl);
    out += html_figure(kind + " (" + std::to_string(n) + (n == 1 ? " row)" : " rows)"), chart, "");
  }
  return out + "</div>\n";
}

std::string position_figure(const PageData& data) {
  if (data.budgets.empty()) return {};
  const std::string& budget = data.budgets.back();
  LineChart chart{"KL by position of the continuation, a line a policy",
                  {.title = "scored position"},
                  {.title = "KL, nats (log)", .log = true},
                  {},
                  false};
  for (const PageCase* c : data.ranked(budget)) chart.series.push_back(by_position(*c));
  if (chart.series.empty() || chart.series[0].points.size() < 3) return {};
  return html_section(
             "Along the continuation, at " + budget,
             "Mean over the rows, in buckets of neighbouring scored positions. A policy that "
             "lost what later text needs rises to the right.") +
         legend_html(chart.series) + "<div class=\"wide\">" +
         html_figure("KL by position", to_svg(chart), "") + "</div>\n";
}

std::string cost_figures(const PageData& data) {
  if (data.cases.empty()) return {};
  const std::string budget =
      data.budgets.empty() ? data.cases[0].summary.asked.budget : data.budgets.back();
  std::vector<const PageCase*> cases;
  for (const PageCase& c : data.cases) {
    if (c.is_full() || c.summary.asked.budget == budget) cases.push_back(&c);
  }
  BarChart bytes{"Bytes of the cache by policy", {}};
  for (const PageCase* c : cases) {
    bytes.bars.push_back({c->label,
                          {double(c->summary.bytes_kept)},
                          bytes_text(double(c->summary.bytes_kept)),
                          0,
                          c->style});
  }
  return html_section("Cost, at " + budget, "What is kept in memory, and what choosing it takes.") +
         "<div class=\"two\">" +
         html_figure("Memory", to_svg(bytes),
                     "Keys, values, positions and log-weights; sum over the rows.") +
         time_figures(cases) + "</div>\n";
}

std::string kept_figures(const PageData& data) {
  if (data.budgets.empty()) return {};
  const std::string& budget = data.budgets.back();
  std::string pictures;
  for (const PageCase* c : data.ranked(budget)) {
    if ((*c->rows)[0].kept) pictures += picture(*c);
  }
  if (pictures.empty()) return {};
  return html_section(
             "What each policy keeps, at " + budget,
             "The first row's text. Down: layers, and in each its KV heads; across: position. "
             "The stronger the colour, the more of the entries there are kept.") +
         "<div class=\"many\">" + pictures + "</div>\n";
}

}  // namespace pith
