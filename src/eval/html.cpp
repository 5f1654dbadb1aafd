#include "eval/html.h"

#include "eval/html_data.h"
#include "eval/html_figures.h"
#include "eval/html_page.h"
#include "eval/html_verdict.h"
#include "eval/text_table.h"

namespace pith {
namespace {

std::string row_of(const PageData& data, const PageCase& page, const std::string& inside) {
  const auto ranked = data.ranked(page.summary.asked.budget);
  const bool best = !ranked.empty() && ranked[0] == &page;
  return std::string("<tr") + (best ? " class=\"best\"" : "") + "><th scope=\"row\" title=\"" +
         escaped(page.summary.asked.policy) + "\">" + escaped(page.label) + "</th>" + inside +
         "</tr>\n";
}

std::string main_table(const PageData& data) {
  std::string rows;
  for (const PageCase& page : data.cases) {
    const CaseSummary& s = page.summary;
    rows +=
        row_of(data, page,
               html_cells({s.asked.budget, fixed(s.kl_mean, 4) + " \u00b1 " + fixed(s.kl_se, 4),
                           fixed(s.kl_median, 4), fixed(s.kl_p90, 4), fixed(s.kl_p99, 4),
                           fixed(100 * s.same_top, 1) + " %", fixed(s.dnll, 4), fixed(s.rms_dp, 4),
                           bytes_text(double(s.bytes_kept)), fixed(s.score_s, 3)}));
  }
  return html_table("All figures",
                    {"Policy", "Kept", "KL mean \u00b1 se", "median", "p90", "p99", "Same top",
                     "dNLL", "rms dp", "Bytes", "Scoring, s"},
                    rows);
}

std::string kinds_table(const PageData& data) {
  if (data.kinds.size() < 2) return {};
  std::vector<std::string> heading{"Policy", "Kept"};
  for (const std::string& kind : data.kinds) heading.push_back("KL of " + kind);
  std::string rows;
  for (const PageCase& page : data.cases) {
    std::vector<std::string> texts{page.summary.asked.budget};
    for (const std::string& kind : data.kinds) {
      const auto found = page.summary.per_kind.find(kind);
      texts.push_back(found == page.summary.per_kind.end()
                          ? "-"
                          : fixed(found->second.kl, 4) + " \u00b1 " +
                                fixed(found->second.kl_se, 4));
    }
    rows += row_of(data, page, html_cells(texts));
  }
  return "<h3>By kind</h3>\n" + html_table("KL by kind", heading, rows);
}

std::string specs(const PageData& data) {
  std::string out = "<details><summary>The policies with all their parameters</summary><dl>";
  std::string last;
  for (const PageCase& page : data.cases) {
    if (page.summary.asked.policy == last) continue;
    last = page.summary.asked.policy;
    out += "<dt>" + escaped(page.label) + "</dt><dd><code>" + escaped(last) + "</code></dd>";
  }
  return out + "</dl></details>\n";
}

/// How to read the figures.
std::string reading() {
  return R"(<h2>How to read it</h2>
<ul class="plain">
<li><b>KL</b>: divergence of the next-token distribution from that of the full cache, in nats; 0 is no
change. Means and standard errors are over rows, quantiles over all scored positions.</li>
<li><b>Same top</b>: how often the likeliest token is the same.</li>
<li><b>dNLL</b>: by how much the text that really follows becomes less likely, in nats a token.</li>
<li><b>rms dp</b>: root mean square of the change of that token's probability.</li>
<li><b>Against the baseline</b>: reduction of mean KL in per cent, with its paired 95 % interval over
rows. A single row has no interval.</li>
</ul>
)";
}

std::string about(const PageData& data) {
  const FidelityReport& report = data.report;
  std::string version;
  if (!data.cases.empty()) {
    const Receipt& receipt = (*data.cases[0].rows)[0].receipt;
    version = escaped(receipt.version + " (" + receipt.commit + "), " + receipt.backend + ", " +
                      std::to_string(receipt.threads) + " threads");
  }
  return how_measured(report.command, report.model, report.machine, html_entry("pith", version),
                      report.notes);
}

std::string subtitle(const PageData& data) {
  const FidelityReport& report = data.report;
  std::string text = std::to_string(data.cases.empty() ? 0 : data.cases[0].summary.n) + " of " +
                     std::to_string(report.rows.size()) + " rows";
  if (!report.rows.empty()) {
    text += ", " + grouped((long long)report.rows[0].context.size()) + " tokens in the first";
  }
  return "<p class=\"soft\">" + escaped(file_name(report.model) + "; " + text) +
         ". The full cache of the same model is the measure: the less a policy moves its "
         "predictions, the better.</p>\n";
}

}  // namespace

std::string to_html(const FidelityReport& report) {
  const PageData data(report);
  std::string out = page_head("pith compare: " + file_name(report.model)) +
                    "<header><h1>Which entries of the KV cache to keep</h1>\n" +
                    "<p class=\"verdict\">" + escaped(verdict_text(data)) + "</p>\n" +
                    subtitle(data) + "</header>\n<main>\n";
  if (!data.budgets.empty()) out += verdict_table(data);
  out += quality_figures(data) + kind_figures(data) + position_figure(data) + cost_figures(data) +
         kept_figures(data);
  if (!data.cases.empty()) {
    out += "<h2>All figures</h2>\n" + main_table(data) + kinds_table(data) + specs(data);
  }
  return out + reading() + about(data) + "</main>\n<footer></footer></body></html>\n";
}

}  // namespace pith
