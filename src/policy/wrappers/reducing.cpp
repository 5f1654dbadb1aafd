#include "policy/wrappers/reducing.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "policy/keys.h"
#include "policy/score_rows.h"

namespace pith {

namespace {

/// Rows first .. last - 1 over their root mean square; about their mean where `centred`.
measure::RowMatrix<double> scaled(const KeyMatrix& all, const Eligible& eligible, bool centred) {
  measure::RowMatrix<double> out = all.middleRows(eligible.first, eligible.count()).cast<double>();
  if (centred) out.rowwise() -= out.colwise().mean().eval();
  const double rms = std::sqrt(out.squaredNorm() / double(out.size()));
  if (rms > 0) out /= rms;
  return out;
}

}  // namespace

void ReducingWrapper::refine(Plan& plan, const Scores&, const PolicyContext& context) const {
  const auto row_bytes = [&](int layer, int head_kv) { return bytes(context, layer, head_kv); };
  const size_t used = each_row(context, row_bytes, [&](int layer, int head_kv) {
    const int row = context.cache.shape().row(layer, head_kv);
    const Eligible eligible = eligible_entries(context, row);
    const int count = int(eligible_of(plan.rows[size_t(row)], eligible).size());
    if (count == 0 || count == eligible.count()) return;
    std::seed_seq seed{seed_, uint64_t(row)};
    Task task{context, layer, head_kv, eligible, count, measure::Random(seed)};
    measure::Support support = reduce(task);
    for (int& entry : support.entries) entry += eligible.first;
    write_support(eligible, context.cache.length(layer, head_kv), support.entries, support.weights,
                  plan.rows[size_t(row)]);
  });
  plan.scratch_peak = std::max(plan.scratch_peak, used);
}

Knob ReducingWrapper::seed_knob() {
  return {.name = "seed",
          .value = "0",
          .min = 0,
          .max = std::numeric_limits<int>::max(),
          .integer = true,
          .choices = {},
          .help = "another seed draws other entries"};
}

measure::RowMatrix<double> PointReducingWrapper::points(const Task& task) {
  constexpr double kValues = 0.5;  // how much values count beside keys
  const int d = task.context.cache.shape().head_dim;
  measure::RowMatrix<double> points(task.eligible.count(), 2 * d);
  points.leftCols(d) = scaled(keys_of(task.context, task.layer, task.head_kv), task.eligible, true);
  points.rightCols(d) =
      kValues * scaled(values_of(task.context, task.layer, task.head_kv), task.eligible, false);
  return points;
}

std::vector<double> PointReducingWrapper::masses(const Task& task) {
  std::vector<double> masses(size_t(task.eligible.count()), 1);
  const auto log_weights = task.context.cache.log_weights(task.layer, task.head_kv);
  for (size_t i = 0; !log_weights.empty() && i < masses.size(); ++i) {
    masses[i] = std::exp(double(log_weights[size_t(task.eligible.first) + i]));
  }
  return masses;
}

size_t PointReducingWrapper::bytes(const PolicyContext& context, int layer, int head_kv) const {
  // Floats as read, doubles scaled, and the points: 1 + 2 + 4 times, and orders of them.
  return 8 * keys_bytes(context, layer, head_kv);
}

measure::RowMatrix<double> QueryReducingWrapper::features(const Task& task) const {
  return queries_.features(task.context, task.layer, task.head_kv)
      .middleRows(task.eligible.first, task.eligible.count())
      .cast<double>();
}

size_t QueryReducingWrapper::bytes(const PolicyContext& context, int layer, int head_kv) const {
  return 3 * queries_.feature_bytes(context, layer, head_kv);  // the same in doubles beside it
}

}  // namespace pith
