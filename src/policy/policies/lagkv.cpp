#include <algorithm>
#include <cmath>
#include <numeric>

#include "policy/keys.h"
#include "policy/policies/policies.h"
#include "policy/protection.h"
#include "policy/score_rows.h"

namespace pith {

namespace {

/// Softmax over the entries of `part` of how much their numbers spread once each channel is scaled
/// by its range in `next`, [lag].
Eigen::ArrayXf spread(const Eigen::Ref<const KeyMatrix>& part,
                      const Eigen::Ref<const KeyMatrix>& next) {
  const Eigen::ArrayXf low = next.colwise().minCoeff().transpose();
  const Eigen::ArrayXf range =
      (next.colwise().maxCoeff().transpose().array() - low).max(std::numeric_limits<float>::min());
  Eigen::ArrayXf out(part.rows());
  for (Eigen::Index i = 0; i < part.rows(); ++i) {
    const Eigen::ArrayXf scaled = (part.row(i).transpose().array() - low) / range;
    const auto freedom = float(std::max<Eigen::Index>(1, scaled.size() - 1));
    out[i] = std::sqrt((scaled - scaled.mean()).square().sum() / freedom);
  }
  out = (out - out.maxCoeff()).exp();
  return out / out.sum();
}

/// Ranks from the lowest to the highest, over their number; of equals the newer ranks higher.
void write_ranks(const Eigen::ArrayXf& values, std::span<float> out) {
  std::vector<int> order(out.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int a, int b) { return values[a] < values[b]; });
  for (size_t rank = 0; rank < order.size(); ++rank) {
    out[size_t(order[rank])] = float(rank) / float(order.size());
  }
}

class LagKvScorer : public Scorer {
 public:
  explicit LagKvScorer(int lag) : lag_(lag) {}

  Scores score(const PolicyContext& context) const override {
    const auto bytes = [&](int layer, int head_kv) {
      return 2 * keys_bytes(context, layer, head_kv);
    };
    return score_each_row(context, bytes, [&](const ScoredRow& row) { score_row(context, row); });
  }

 private:
  /// Blocks of `lag` after the protected first entries; the last whole block and what follows it
  /// have none to be compared with and rank first.
  void score_row(const PolicyContext& context, const ScoredRow& row) const {
    const KeyMatrix keys = keys_of(context, row.layer, row.head_kv);
    const KeyMatrix values = values_of(context, row.layer, row.head_kv);
    std::ranges::fill(row.scores, 1.0F);
    const int length = int(row.scores.size());
    const int start =
        eligible_entries(context, context.cache.shape().row(row.layer, row.head_kv)).first;
    for (int at = start; at + 2 * lag_ <= length; at += lag_) {
      const Eigen::ArrayXf both =
          spread(keys.middleRows(at, lag_), keys.middleRows(at + lag_, lag_)) +
          spread(values.middleRows(at, lag_), values.middleRows(at + lag_, lag_));
      write_ranks(both, row.scores.subspan(size_t(at), size_t(lag_)));
    }
  }

  int lag_;
};

}  // namespace

ScoreRow lagkv_row() {
  return {.name = "lagkv",
          .summary = "entries that stand out when scaled by the block that follows theirs",
          .paper =
              "Liang et al., LagKV: Lag-Relative Information of the KV Cache Tells Which Tokens "
              "Are Important, arXiv 2504.04704",
          .formula =
              "rank within its block of softmax(std(k scaled)) + softmax(std(v scaled)); each "
              "channel scaled to its range in the next block of `lag` entries",
          .differences = "",
          .budget = "uniform",
          .knobs = {{.name = "lag",
                     .value = "128",
                     .min = 1,
                     .max = 65536,
                     .integer = true,
                     .choices = {},
                     .help = "entries of a block"}},
          .make = [](const KnobValues& knobs) -> std::unique_ptr<Scorer> {
            return std::make_unique<LagKvScorer>(knobs.integer("lag"));
          }};
}

}  // namespace pith
