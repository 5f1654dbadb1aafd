#include "policy/abstain.h"

#include <string>

#include "measure/risk.h"
#include "policy/score_rows.h"
#include "policy/text.h"

namespace pith {

namespace {

/// "layer 0 heads 1 2, layer 3 head 0", of rows in order.
std::string heads_text(const std::vector<int>& rows, int n_head_kv) {
  std::string out;
  for (size_t r = 0; r < rows.size(); ++r) {
    const int layer = rows[r] / n_head_kv;
    if (r == 0 || rows[r - 1] / n_head_kv != layer) {
      const bool several = r + 1 < rows.size() && rows[r + 1] / n_head_kv == layer;
      out +=
          (r == 0 ? "layer " : ", layer ") + std::to_string(layer) + (several ? " heads" : " head");
    }
    out += " " + std::to_string(rows[r] % n_head_kv);
  }
  return out;
}

}  // namespace

Needs abstain_needs() { return kFutureQueries.needs(); }

size_t abstain(Plan& plan, double most, const PolicyContext& context) {
  const ModelShape& shape = context.cache.shape();
  const int buckets = RiskOptions().buckets;
  std::vector<double> error(size_t(shape.n_rows()), 0);
  const auto length = [&](int row) {
    return context.cache.length(row / shape.n_head_kv, row % shape.n_head_kv);
  };
  const auto bytes = [&](int layer, int head_kv) {
    return response_moment_bytes(context, kFutureQueries, layer, head_kv, buckets);
  };
  const size_t used = each_row(context, bytes, [&](int layer, int head_kv) {
    const auto row = size_t(shape.row(layer, head_kv));
    if (int(plan.rows[row].keep.size()) == length(int(row))) return;
    const ResponseMoment moment(context, kFutureQueries, layer, head_kv, buckets);
    error[row] = measure::share_of(moment.error_of(plan.rows[row]), moment.trace());
  });
  std::vector<int> whole;
  int64_t added = 0;
  for (int row = 0; row < shape.n_rows(); ++row) {
    if (!(error[size_t(row)] > most)) continue;
    RowPlan& kept = plan.rows[size_t(row)];
    added += length(row) - int64_t(kept.keep.size());
    kept = whole_row(length(row));
    whole.push_back(row);
  }
  if (!whole.empty()) {
    plan.notes.push_back("kept whole, their plans' error being over " + number_text(most) + ": " +
                         heads_text(whole, shape.n_head_kv) + "; " + std::to_string(added) +
                         " entries over the budget");
  }
  return used;
}

}  // namespace pith
