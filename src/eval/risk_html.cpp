#include <algorithm>
#include <cmath>

#include "eval/html_label.h"
#include "eval/html_page.h"
#include "eval/risk_report.h"
#include "eval/svg_chart.h"
#include "eval/text_table.h"

namespace pith {
namespace {

/// [heads][layers]: layers lie across.
std::vector<std::vector<double>> by_head(const Risk& risk, size_t b, double BudgetRisk::* value) {
  const size_t heads = risk.layers.empty() ? 0 : risk.layers[0].size();
  std::vector<std::vector<double>> out(heads);
  for (const auto& layer : risk.layers) {
    for (size_t h = 0; h < heads; ++h) out[h].push_back(layer[h].at[b].*value);
  }
  return out;
}

std::string maps(const Risk& risk, size_t b) {
  std::string out = "<div class=\"two\">";
  for (const RiskFigure& figure : risk_figures()) {
    const Spread all = spread_of(risk, -1, b, figure.value);
    const HeatMap map{
        .label = std::string(figure.name) + " by layer and KV head at " + risk.budgets[b],
        .x_title = "layer",
        .y_title = "head",
        .values = by_head(risk, b, figure.value)};
    out += html_figure(figure.name, to_svg(map),
                       "Median " + significant(all.median, 2) + ", mean " +
                           significant(all.mean, 2) + ", most " + significant(all.most, 2) + ".");
  }
  return out + "</div>\n";
}

std::string layer_table(const Risk& risk, size_t b) {
  std::string rows;
  for (size_t il = 0; il < risk.layers.size(); ++il) {
    std::vector<std::string> cells;
    for (const RiskFigure& figure : risk_figures()) {
      const Spread s = spread_of(risk, int(il), b, figure.value);
      cells.insert(cells.end(), {fixed(s.mean, 4), fixed(s.most, 4)});
    }
    rows += "<tr><th scope=\"row\">" + std::to_string(il) + "</th>" + html_cells(cells) + "</tr>\n";
  }
  return "<details><summary>Every layer at " + escaped(risk.budgets[b]) + "</summary>" +
         html_table("Figures by layer at " + risk.budgets[b],
                    {"Layer", "Tail share, mean", "most", "Plan error, mean", "most",
                     "Evicted mass, mean", "most"},
                    rows) +
         "</details>\n";
}

std::string budget_sections(const Risk& risk) {
  std::string out;
  for (size_t b = 0; b < risk.budgets.size(); ++b) {
    out += html_section("At " + risk.budgets[b],
                        "A cell a KV head; a map's full colour is its highest figure, or 1 where "
                        "it goes beyond.") +
           maps(risk, b) + layer_table(risk, b);
  }
  return out;
}

/// Shares of the trace by number of the eigenvalue, of a head.
ChartSeries decay(const HeadRisk& head, const std::string& name, int style) {
  ChartSeries out{name, series_style(style), {}};
  for (size_t k = 0; k < head.eigenvalues.size(); ++k) {
    out.points.push_back({double(k + 1), 100 * head.eigenvalues[k] / head.tr});
  }
  return out;
}

/// The heads with the steepest, the middle and the flattest spectrum at the first budget.
std::string decays(const Risk& risk) {
  std::vector<std::pair<double, std::pair<size_t, size_t>>> order;
  for (size_t il = 0; il < risk.layers.size(); ++il) {
    for (size_t h = 0; h < risk.layers[il].size(); ++h) {
      const HeadRisk& head = risk.layers[il][h];
      if (head.tr > 0) order.push_back({head.at[0].tail_share, {il, h}});
    }
  }
  if (order.empty()) return {};
  std::ranges::sort(order);
  std::vector<ChartSeries> series;
  for (const size_t at : {size_t{0}, order.size() / 2, order.size() - 1}) {
    const auto [il, h] = order[at].second;
    series.push_back(decay(risk.layers[il][h],
                           "layer " + std::to_string(il) + ", head " + std::to_string(h),
                           int(series.size())));
  }
  return html_section(
             "How the eigenvalues fall",
             "Of the heads with the smallest, the middle and the largest tail. A flat line "
             "is a table to look things up in.") +
         legend_html(series) + "<div class=\"wide\">" +
         html_figure("Leading eigenvalues",
                     to_svg(LineChart{.label = "Share of the trace by eigenvalue, a line a head",
                                      .x = {.title = "number of the eigenvalue"},
                                      .y = {.title = "of the trace, % (log)", .log = true},
                                      .series = series,
                                      .markers = false}),
                     "") +
         "</div>\n";
}

std::string verdict(const Risk& risk) {
  std::string out;
  for (size_t b = 0; b < risk.budgets.size(); ++b) {
    const Spread tail = spread_of(risk, -1, b, &BudgetRisk::tail_share);
    const Spread error = spread_of(risk, -1, b, &BudgetRisk::plan_error);
    out +=
        (b == 0 ? "At " : " At ") + risk.budgets[b] + ", " + significant(100 * tail.mean, 2) +
        " % of what a head answers lies beyond its main directions (mean over heads), and the plan "
        "errs by " +
        significant(error.median, 2) + " of it (median).";
  }
  return out;
}

std::string reading() {
  std::string out = "<h2>How to read it</h2>\n<ul class=\"plain\">\n";
  for (const std::string& words : risk_words()) out += "<li>" + escaped(words) + "</li>\n";
  return out + "</ul>\n";
}

}  // namespace

std::string to_html(const RiskReport& report) {
  const Risk& risk = report.risk;
  return page_head("pith risk: " + file_name(report.text)) +
         "<header><h1>What compressing this cache risks</h1>\n<p class=\"verdict\">" +
         escaped(verdict(risk)) + "</p>\n<p class=\"soft\">" +
         escaped(file_name(report.text) + ", " + grouped(report.n_tokens) + " tokens; plans of " +
                 short_label(risk.policy) +
                 "; queries: " + std::string(kRiskQueriesNames.at(size_t(risk.queries))) + ".") +
         "</p></header>\n<main>\n" + budget_sections(risk) + decays(risk) + reading() +
         how_measured(report.command, report.model, report.machine,
                      html_entry("Policy", "<code>" + escaped(risk.policy) + "</code>"),
                      risk.notes) +
         "</main>\n<footer></footer></body></html>\n";
}

}  // namespace pith
