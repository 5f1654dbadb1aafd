#include "eval/report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "eval/receipt_json.h"
#include "eval/text_table.h"

namespace pith {
namespace {

using Json = nlohmann::ordered_json;

std::string percent(double share) { return fixed(100 * share, 1) + "%"; }

std::string ratio_text(const Ratio& ratio) {
  if (std::isnan(ratio.lo)) return fixed(ratio.value, 3) + " (one row)";
  return fixed(ratio.value, 3) + " [" + fixed(ratio.lo, 3) + ", " + fixed(ratio.hi, 3) + "]";
}

Json ratio_json(const std::optional<Ratio>& ratio) {
  if (!ratio) return nullptr;
  return {{"ratio", ratio->value}, {"lo", ratio->lo}, {"hi", ratio->hi}};
}

Json kinds_json(const std::map<std::string, KindSummary>& kinds) {
  Json out = Json::object();
  for (const auto& [kind, k] : kinds) {
    out[kind] = {{"n", k.n},         {"kl", k.kl},
                 {"kl_se", k.kl_se}, {"same_top", k.same_top},
                 {"dnll", k.dnll},   {"vs_baseline", ratio_json(k.vs_baseline)}};
  }
  return out;
}

Json rows_json(const std::vector<RowFidelity>& rows) {
  Json out = Json::array();
  for (const RowFidelity& row : rows) {
    out.push_back({{"id", row.id},
                   {"kind", row.kind},
                   {"kl", mean(row.kl)},
                   {"same_top", row.same_top},
                   {"dnll", row.dnll},
                   {"divergence", row.divergence ? Json(*row.divergence) : Json()}});
    if (row.trial_kl) out.back()["trial_kl"] = *row.trial_kl;
  }
  return out;
}

Json case_json(const CaseSummary& s, const std::vector<RowFidelity>& rows) {
  return {{"policy", s.asked.policy},
          {"budget", s.asked.budget},
          {"entries_kept", s.entries_kept},
          {"entries_full", s.entries_full},
          {"bytes_kept", s.bytes_kept},
          {"bytes_full", s.bytes_full},
          {"kl",
           {{"mean", s.kl_mean},
            {"median", s.kl_median},
            {"p90", s.kl_p90},
            {"p99", s.kl_p99},
            {"se", s.kl_se}}},
          {"same_top", s.same_top},
          {"dnll", s.dnll},
          {"rms_dp", s.rms_dp},
          {"divergence", s.divergence ? Json(*s.divergence) : Json()},
          {"score_s", s.score_s},
          {"select_s", s.select_s},
          {"vs_baseline", ratio_json(s.vs_baseline)},
          {"receipt", to_json(rows[0].receipt)},
          {"per_kind", kinds_json(s.per_kind)},
          {"per_row", rows_json(rows)}};
}

/// The cases that have rows, each with its summary.
template <typename Visit>
void each_case(const FidelityReport& report, Visit visit) {
  const std::vector<CaseSummary> summaries = summarize(report.results, report.baseline);
  size_t at = 0;
  for (const CaseResults& results : report.results) {
    if (!results.rows.empty()) visit(summaries[at++], results.rows);
  }
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string csv_number(double value) { return std::isnan(value) ? "" : significant(value, 9); }

std::string main_table(const std::vector<CaseSummary>& summaries) {
  TextTable table({"policy", "budget", "kept", "bytes", "KL mean", "+-se", "median", "p90", "p99",
                   "same top", "dNLL", "rms dp", "diverges", "score s", "select s"},
                  2);
  for (const CaseSummary& s : summaries) {
    table.add({s.asked.policy, s.asked.budget,
               percent(double(s.entries_kept) / double(s.entries_full)),
               bytes_text(double(s.bytes_kept)), fixed(s.kl_mean, 4), fixed(s.kl_se, 4),
               fixed(s.kl_median, 4), fixed(s.kl_p90, 4), fixed(s.kl_p99, 4), percent(s.same_top),
               fixed(s.dnll, 4), fixed(s.rms_dp, 4), s.divergence ? fixed(*s.divergence, 0) : "-",
               fixed(s.score_s, 2), fixed(s.select_s, 2)});
  }
  return table.text();
}

/// Mean KL of each kind, a column a kind; empty where there is only one.
std::string kinds_table(const std::vector<CaseSummary>& summaries) {
  if (summaries.empty() || summaries[0].per_kind.size() < 2) return {};
  std::vector<std::string> heading{"mean KL by kind", "budget"};
  for (const auto& [kind, k] : summaries[0].per_kind) {
    heading.push_back(kind + " (" + std::to_string(k.n) + ")");
  }
  TextTable table(heading, 2);
  for (const CaseSummary& s : summaries) {
    std::vector<std::string> cells{s.asked.policy, s.asked.budget};
    for (const auto& [kind, k] : s.per_kind) {
      cells.push_back(fixed(k.kl, 4) + " +- " + fixed(k.kl_se, 4));
    }
    table.add(cells);
  }
  return "\n" + table.text();
}

std::string ratio_table(const std::vector<CaseSummary>& summaries, const std::string& baseline) {
  if (baseline.empty()) return {};
  TextTable table({"mean KL / that of " + baseline, "budget", "ratio [95 % interval]"}, 2);
  bool any = false;
  for (const CaseSummary& s : summaries) {
    if (!s.vs_baseline) continue;
    any = true;
    table.add({s.asked.policy, s.asked.budget, ratio_text(*s.vs_baseline)});
    if (s.per_kind.size() < 2) continue;
    for (const auto& [kind, k] : s.per_kind) {
      table.add({"  " + kind, s.asked.budget, ratio_text(*k.vs_baseline)});
    }
  }
  return any ? "\n" + table.text() : std::string();
}

}  // namespace

Json to_json(const FidelityReport& report) {
  Json rows = Json::array();
  for (const FidelityRow& row : report.rows) {
    rows.push_back({{"id", row.id},
                    {"n_tokens", row.context.size()},
                    {"continuation_tokens", row.continuation.size()}});
  }
  Json results = Json::array();
  each_case(report, [&](const CaseSummary& summary, const std::vector<RowFidelity>& evaluated) {
    results.push_back(case_json(summary, evaluated));
  });
  return {{"model", report.model},
          {"command", report.command},
          {"machine", to_json(report.machine)},
          {"baseline", report.baseline},
          {"rows", rows},
          {"results", results},
          {"notes", report.notes}};
}

std::string to_csv(const FidelityReport& report) {
  std::string out =
      "policy,budget,rows,entries_kept,entries_full,bytes_kept,bytes_full,kl_mean,kl_median,kl_p90,"
      "kl_p99,kl_se,same_top,dnll,rms_dp,divergence,score_s,select_s\n";
  for (const CaseSummary& s : summarize(report.results, report.baseline)) {
    out += csv_cell(s.asked.policy) + "," + csv_cell(s.asked.budget);
    for (const int64_t count :
         {int64_t(s.n), s.entries_kept, s.entries_full, s.bytes_kept, s.bytes_full}) {
      out += "," + std::to_string(count);
    }
    for (const double value :
         {s.kl_mean, s.kl_median, s.kl_p90, s.kl_p99, s.kl_se, s.same_top, s.dnll, s.rms_dp,
          s.divergence.value_or(std::nan("")), s.score_s, s.select_s}) {
      out += "," + csv_number(value);
    }
    out += "\n";
  }
  return out;
}

std::string to_table(const FidelityReport& report) {
  const std::vector<CaseSummary> summaries = summarize(report.results, report.baseline);
  if (summaries.empty()) return "no row was evaluated\n";
  std::string out = std::to_string(summaries[0].n) + " of " + std::to_string(report.rows.size()) +
                    " rows; KL in nats against the full cache; entries and bytes over all rows\n\n";
  out += main_table(summaries) + kinds_table(summaries) + ratio_table(summaries, report.baseline);
  for (const std::string& note : report.notes) out += "note: " + note + "\n";
  return out;
}

}  // namespace pith
