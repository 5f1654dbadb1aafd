#include "eval/html_data.h"

#include <algorithm>
#include <map>

#include "eval/html_label.h"

namespace pith {
namespace {

bool is_reference(const std::string& name) {
  return std::ranges::find(reference_policies(), name) != reference_policies().end();
}

void add_new(std::vector<std::string>& list, const std::string& text) {
  if (std::ranges::find(list, text) == list.end()) list.push_back(text);
}

}  // namespace

PageData::PageData(const FidelityReport& source) : report(source) {
  std::map<std::string, SeriesStyle> styles;
  int coloured = 0, muted = 0;
  size_t at = 0;
  const std::vector<CaseSummary> summaries = summarize(report.results, report.baseline);
  for (const CaseResults& results : report.results) {
    if (results.rows.empty()) continue;
    PageCase page{summaries[at++], &results.rows, short_label(results.asked.policy), {}, false};
    page.reference = is_reference(policy_name(results.asked.policy));
    if (!styles.contains(results.asked.policy)) {
      styles[results.asked.policy] =
          page.reference ? SeriesStyle{0, ++muted % kDashes, true} : series_style(coloured++);
    }
    page.style = styles[results.asked.policy];
    if (!page.is_full()) {
      add_new(policies, results.asked.policy);
      add_new(budgets, results.asked.budget);
    }
    for (const auto& [kind, figures] : page.summary.per_kind) add_new(kinds, kind);
    cases.push_back(std::move(page));
  }
  std::ranges::stable_sort(budgets, std::ranges::greater(), [&](const std::string& budget) {
    return std::ranges::find(cases, budget,
                             [](const PageCase& c) { return c.summary.asked.budget; })
        ->kept_share();
  });
}

std::vector<const PageCase*> PageData::of_policy(const std::string& spec) const {
  std::vector<const PageCase*> out;
  for (const PageCase& c : cases) {
    if (c.summary.asked.policy == spec && !c.is_full()) out.push_back(&c);
  }
  std::ranges::stable_sort(out, {}, [](const PageCase* c) { return c->kept_share(); });
  return out;
}

std::vector<const PageCase*> PageData::ranked(const std::string& budget) const {
  std::vector<const PageCase*> out;
  for (const PageCase& c : cases) {
    if (c.summary.asked.budget == budget && !c.is_full()) out.push_back(&c);
  }
  std::ranges::stable_sort(out, {}, [](const PageCase* c) { return c->summary.kl_mean; });
  return out;
}

}  // namespace pith
