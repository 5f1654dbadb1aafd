#include "eval/html_verdict.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "eval/text_table.h"

namespace pith {
namespace {

/// The outcome at one budget; null where there is no such policy.
struct Outcome {
  const PageCase *best = nullptr, *second = nullptr, *baseline = nullptr;
};

Outcome outcome_at(const PageData& data, const std::string& budget) {
  Outcome out;
  for (const PageCase* c : data.ranked(budget)) {
    if (c->summary.asked.policy == data.report.baseline) out.baseline = c;
    if (c->reference) continue;
    if (out.best == nullptr) {
      out.best = c;
    } else if (out.second == nullptr) {
      out.second = c;
    }
  }
  return out;
}

Ratio ratio_of(const PageCase& one, const PageCase& other) {
  std::vector<double> a, b;
  for (const RowFidelity& row : *one.rows) a.push_back(mean(row.kl));
  for (const RowFidelity& row : *other.rows) b.push_back(mean(row.kl));
  return paired_ratio(a, b);
}

std::string less_text(double ratio) {
  const double percent = 100 * (1 - ratio);
  if (std::isnan(ratio)) return "-";
  if (std::abs(percent) < 0.5) return "no less";
  return fixed(std::abs(percent), 0) + (percent > 0 ? " % less" : " % more");
}

/// How sure it is that the best is ahead of the next.
std::string lead_text(const Outcome& out) {
  if (out.second == nullptr) return "the only one";
  const Ratio ratio = ratio_of(*out.best, *out.second);
  const std::string next = out.second->label;
  if (std::isnan(ratio.hi)) return less_text(ratio.value) + " than " + next + " (one row)";
  return ratio.hi < 1 ? less_text(ratio.value) + " than " + next : "not clear of " + next;
}

std::string against_baseline(const Outcome& out) {
  if (out.best == out.baseline) return "is the baseline";
  const auto& ratio = out.best->summary.vs_baseline;
  if (!ratio) return "-";
  if (std::isnan(ratio->lo)) return less_text(ratio->value);
  return less_text(ratio->value) + " [" + fixed(100 * (1 - ratio->hi), 0) + ", " +
         fixed(100 * (1 - ratio->lo), 0) + "]";
}

std::string kl_at(const PageData& data, const std::string& budget, const std::string& policy) {
  for (const PageCase* c : data.ranked(budget)) {
    if (c->summary.asked.policy.starts_with(policy)) return fixed(c->summary.kl_mean, 4);
  }
  return "-";
}

/// "at 5% it changes ..., 35 % less than snapkv"
std::string tightest_sentence(const PageData& data) {
  const std::string& budget = data.budgets.back();
  const Outcome out = outcome_at(data, budget);
  std::string text = "At " + budget + ", " + out.best->label + " has a KL of " +
                     significant(out.best->summary.kl_mean, 2) + " nats";
  const PageCase* other = out.best == out.baseline || !out.baseline ? out.second : out.baseline;
  if (other != nullptr) {
    text += ", " + less_text(out.best->summary.kl_mean / other->summary.kl_mean) + " than " +
            other->label;
    const Ratio ratio = ratio_of(*out.best, *other);
    if (std::isnan(ratio.hi)) text += " (one row only)";
    if (ratio.hi >= 1) text += " (within the error)";
  }
  return text + ".";
}

/// " The rows do not tell it from a, b." where the next one's error reaches the winner's; else
/// empty.
std::string ties_sentence(const PageData& data, const std::string& winner) {
  std::string names;
  for (const std::string& budget : data.budgets) {
    const Outcome out = outcome_at(data, budget);
    if (out.second == nullptr || out.best->label != winner) continue;
    const std::string& next = out.second->label;
    if (!(ratio_of(*out.best, *out.second).hi >= 1) || names.find(next) != std::string::npos)
      continue;
    names += (names.empty() ? "" : ", ") + next;
  }
  return names.empty() ? "" : " The rows do not tell it from " + names + ".";
}

}  // namespace

std::string verdict_text(const PageData& data) {
  if (data.cases.empty()) return "No row was evaluated.";
  std::map<std::string, int> wins;
  for (const std::string& budget : data.budgets) {
    const Outcome out = outcome_at(data, budget);
    if (out.best != nullptr) ++wins[out.best->label];
  }
  if (wins.empty()) return "Only reference policies were run; there is nothing to choose between.";
  const auto most = std::ranges::max_element(wins, {}, [](const auto& w) { return w.second; });
  const int n = int(data.budgets.size());
  std::string text = most->first + " stays closest to the full cache";
  if (n > 1 && most->second == n) text += " at every budget";
  if (n > 1 && most->second < n) {
    text += " at " + std::to_string(most->second) + " of " + std::to_string(n) + " budgets";
  }
  text += "." + ties_sentence(data, most->first);
  if (outcome_at(data, data.budgets.back()).best != nullptr) text += " " + tightest_sentence(data);
  return text;
}

std::string verdict_table(const PageData& data) {
  std::string out =
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Best policy at each "
      "budget\"><table class=\"words\"><thead><tr><th scope=\"col\">Kept</th><th "
      "scope=\"col\">Best</th><th "
      "scope=\"col\">KL</th>";
  if (!data.report.baseline.empty()) out += "<th scope=\"col\">Against the baseline</th>";
  out +=
      "<th scope=\"col\">Against the next</th><th scope=\"col\">Same top</th><th "
      "scope=\"col\">KL of streaming</th><th scope=\"col\">KL of random</th></tr></thead><tbody>\n";
  for (const std::string& budget : data.budgets) {
    const Outcome result = outcome_at(data, budget);
    if (result.best == nullptr) continue;
    const auto cell = [](const std::string& text) { return "<td>" + escaped(text) + "</td>"; };
    out += "<tr><th scope=\"row\">" + escaped(budget) + "</th><td><b>" +
           escaped(result.best->label) + "</b></td>" + cell(fixed(result.best->summary.kl_mean, 4));
    if (!data.report.baseline.empty()) out += cell(against_baseline(result));
    out += cell(lead_text(result)) + cell(fixed(100 * result.best->summary.same_top, 1) + " %") +
           cell(kl_at(data, budget, "streaming")) + cell(kl_at(data, budget, "random")) + "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

}  // namespace pith
