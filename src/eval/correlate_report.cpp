#include "eval/correlate_report.h"

#include <nlohmann/json.hpp>

#include "eval/receipt_json.h"
#include "eval/text_table.h"

namespace pith {
namespace {

using Json = nlohmann::ordered_json;

Json interval(const Ratio& r) { return {r.lo, r.hi}; }

Json bins_json(const std::vector<CostBin>& bins) {
  Json out = Json::array();
  for (const CostBin& b : bins) {
    out.push_back({{"lo", b.lo}, {"hi", b.hi}, {"score", b.score}, {"kl", b.kl}});
  }
  return out;
}

Json rows_json(const std::vector<RowCorrelation>& rows, const RaterSummary& s) {
  Json out = Json::array();
  for (size_t r = 0; r < rows.size(); ++r) {
    out.push_back({{"id", rows[r].id},
                   {"kind", rows[r].kind},
                   {"spearman_masks", s.row_masks[r]},
                   {"spearman_within", s.row_within[r]}});
  }
  return out;
}

std::string with_interval(const Ratio& r) {
  return fixed(r.value, 2) + " [" + fixed(r.lo, 2) + ", " + fixed(r.hi, 2) + "]";
}

}  // namespace

Json to_json(const CorrelateReport& report) {
  Json rows = Json::array(), results = Json::array();
  for (const FidelityRow& row : report.rows) {
    rows.push_back({{"id", row.id}, {"n_tokens", row.context.size()}});
  }
  for (const RaterSummary& s : report.summaries) {
    results.push_back({{"policy", s.name},
                       {"spearman_bins", s.bins.value},
                       {"spearman_masks", s.masks.value},
                       {"spearman_within", s.within.value},
                       {"ci",
                        {{"bins", interval(s.bins)},
                         {"masks", interval(s.masks)},
                         {"within", interval(s.within)}}},
                       {"bins", bins_json(s.table)},
                       {"per_row", rows_json(report.results, s)}});
  }
  return {{"model", report.model},
          {"command", report.command},
          {"machine", to_json(report.machine)},
          {"masks", report.options.masks},
          {"budgets", report.options.budgets},
          {"positions", report.options.positions},
          {"seed", report.options.seed},
          {"rows", rows},
          {"results", results},
          {"notes", report.notes}};
}

std::string to_table(const CorrelateReport& report) {
  if (report.summaries.empty()) return "no row was evaluated\n";
  TextTable table({"rated by", "over bins", "over masks", "within budgets"}, 1);
  for (const RaterSummary& s : report.summaries) {
    table.add({s.name, with_interval(s.bins), with_interval(s.masks), with_interval(s.within)});
  }
  std::string out = std::to_string(report.results.size()) + " of " +
                    std::to_string(report.rows.size()) + " rows, " +
                    std::to_string(report.options.masks) + " masks each, mean KL over " +
                    std::to_string(report.options.positions) +
                    " later positions; Spearman's r_s of a policy's cost of a mask and that KL "
                    "[95 % interval]\n\n" +
                    table.text();
  for (const std::string& note : report.notes) out += "note: " + note + "\n";
  return out;
}

}  // namespace pith
