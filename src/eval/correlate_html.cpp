#include <algorithm>
#include <span>

#include "eval/correlate_report.h"
#include "eval/html_label.h"
#include "eval/html_page.h"
#include "eval/svg_chart.h"
#include "eval/text_table.h"

namespace pith {
namespace {

std::string range(const Ratio& r) {
  return fixed(r.value, 2) + " (" + fixed(r.lo, 2) + " to " + fixed(r.hi, 2) + ")";
}

/// A curve a rater: percentile of its cost against mean KL.
std::vector<ChartSeries> curves(const CorrelateReport& report) {
  std::vector<ChartSeries> out;
  for (const RaterSummary& s : report.summaries) {
    ChartSeries series{short_label(s.name), series_style(int(out.size())), {}};
    for (const CostBin& bin : s.table) series.points.push_back({(bin.lo + bin.hi) / 2, bin.kl});
    out.push_back(std::move(series));
  }
  return out;
}

std::string chart(const std::string& label, const std::vector<ChartSeries>& series) {
  return to_svg(LineChart{label,
                          {.title = "percentile of the cost", .low = 0, .high = 100},
                          {.title = "KL, nats (log)", .log = true},
                          series});
}

std::string figures(const CorrelateReport& report) {
  const std::vector<ChartSeries> series = curves(report);
  std::string out =
      html_section("What masks did, by what was thought of them",
                   "Masks in order of their cost, in bins of equal size: a good cost rises from "
                   "left to right throughout.") +
      legend_html(series) + "<div class=\"wide\">" +
      html_figure("All", chart("Mean KL by percentile of the cost, a line a policy", series), "") +
      "</div>\n<div class=\"many\">";
  for (size_t i = 0; i < series.size(); ++i) {
    out += html_figure(series[i].name,
                       chart("Mean KL by percentile of the cost of " + series[i].name, {series[i]}),
                       "r_s over bins " + range(report.summaries[i].bins));
  }
  return out + "</div>\n";
}

std::string table(const CorrelateReport& report) {
  std::string rows;
  for (const RaterSummary& s : report.summaries) {
    rows += "<tr><th scope=\"row\" title=\"" + escaped(s.name) + "\">" +
            escaped(short_label(s.name)) + "</th>" +
            html_cells({range(s.bins), range(s.masks), range(s.within)}) + "</tr>\n";
  }
  return "<h2>All figures</h2>\n" +
         html_table("Rank correlations", {"Rated by", "Over bins", "Over masks", "Within budgets"},
                    rows);
}

std::string verdict(const CorrelateReport& report) {
  if (report.summaries.empty()) return "No row was evaluated.";
  const auto policies = std::span(report.summaries).first(report.options.policies.size());
  const auto best =
      std::ranges::max_element(policies, {}, [](const RaterSummary& s) { return s.within.value; });
  return short_label(best->name) + " orders masks of the same budget best: r_s " +
         range(best->within) + ".";
}

std::string reading() {
  return R"(<h2>How to read it</h2>
<ul class="plain">
<li><b>r_s</b>: Spearman's rank correlation of a policy's cost of a mask and the mean KL that the mask
caused at later positions; 1 is the same order, 0 none. In parentheses the 95 % interval.</li>
<li><b>Over bins</b>: of the curves' points. Averages hide what single masks do: it is high for
whatever is right on the whole.</li>
<li><b>Over masks</b>: of single masks of all budgets. A cost that only counts evictions does well
here too; compare with a policy that draws at random.</li>
<li><b>Within budgets</b>: of single masks that keep equally many entries. This is what choosing
entries is about.</li>
</ul>
)";
}

}  // namespace

std::string to_html(const CorrelateReport& report) {
  std::string out =
      page_head("pith correlate: " + file_name(report.model)) +
      "<header><h1>How well policies foresee what evictions do</h1>\n"
      "<p class=\"verdict\">" +
      escaped(verdict(report)) + "</p>\n<p class=\"soft\">" +
      escaped(std::to_string(report.results.size()) + " of " + std::to_string(report.rows.size()) +
              " rows, " + std::to_string(report.options.masks) + " masks each, KL over " +
              std::to_string(report.options.positions) + " later positions.") +
      "</p></header>\n<main>\n";
  if (!report.summaries.empty()) out += figures(report) + table(report);
  return out + reading() +
         how_measured(report.command, report.model, report.machine, "", report.notes) +
         "</main>\n<footer></footer></body></html>\n";
}

}  // namespace pith
