#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "policy/attention_probs.h"
#include "policy/keys.h"
#include "policy/score_rows.h"
#include "policy/wrappers/weighting.h"
#include "policy/wrappers/wrappers.h"

namespace pith {

namespace {

/// Attention that says how much an entry counts.
constexpr Reading kMass{.source = Source::tail, .count = 32};
/// Most that an entry's own mass is multiplied by, e^3, as a fitted weight.
constexpr double kMost = 20.0855;
/// Entries whose nearest are looked for at once.
constexpr int kBlock = 256;

/// Attention of all queries to each entry [length], summed.
std::vector<double> masses_of(const PolicyContext& context, int layer, int head_kv) {
  std::vector<double> out(size_t(context.cache.length(layer, head_kv)), 0);
  each_attention_tile(context, kMass, layer, head_kv, [&](const AttentionProbs& tile) {
    const Eigen::Map<const KeyMatrix> alpha(tile.alpha.data(), tile.entries, tile.rows);
    for (int i = 0; i < tile.entries; ++i) out[size_t(i)] += double(alpha.row(i).sum());
  });
  return out;
}

/// For each of `gone` the place in `kept` of the entry whose key is nearest; ties go to the older.
std::vector<int> nearest(const KeyMatrix& keys, std::span<const int> gone,
                         std::span<const int> kept) {
  const KeyMatrix near = keys(std::vector<int>(kept.begin(), kept.end()), Eigen::all);
  const Eigen::RowVectorXf half_squares = near.rowwise().squaredNorm().transpose() / 2;
  std::vector<int> out;
  for (size_t first = 0; first < gone.size(); first += kBlock) {
    const auto block = gone.subspan(first, std::min<size_t>(kBlock, gone.size() - first));
    KeyMatrix likeness =
        keys(std::vector<int>(block.begin(), block.end()), Eigen::all) * near.transpose();
    likeness.rowwise() -= half_squares;
    for (Eigen::Index i = 0; i < likeness.rows(); ++i) {
      Eigen::Index place = 0;
      likeness.row(i).maxCoeff(&place);
      out.push_back(int(place));
    }
  }
  return out;
}

class MergeWrapper : public Wrapper {
 public:
  Needs needs() const override { return kMass.needs(); }
  bool weighs() const override { return true; }

  void refine(Plan& plan, const Scores&, const PolicyContext& context) const override {
    const size_t d = size_t(context.cache.shape().head_dim);
    const auto bytes = [&](int layer, int head_kv) {
      const auto length = size_t(context.cache.length(layer, head_kv));
      return attention_tile_bytes(context, kMass, layer, head_kv) +
             3 * keys_bytes(context, layer, head_kv) + sizeof(float) * (kBlock + d + 8) * length;
    };
    const size_t used = each_row(context, bytes, [&](int layer, int head_kv) {
      RowPlan& row = plan.rows[size_t(context.cache.shape().row(layer, head_kv))];
      const Eligible eligible =
          eligible_entries(context, context.cache.shape().row(layer, head_kv));
      const auto kept = eligible_of(row, eligible);
      if (kept.empty() || int(kept.size()) == eligible.count()) return;
      fold(context, layer, head_kv, eligible, kept, row);
    });
    plan.scratch_peak = std::max(plan.scratch_peak, used);
  }

 private:
  /// Gives the values and log-weights of `row`, whose first eligible entry is `kept[0]`.
  static void fold(const PolicyContext& context, int layer, int head_kv, const Eligible& eligible,
                   const std::vector<int>& kept, RowPlan& row) {
    std::vector<int> gone;
    for (int i = eligible.first; i < eligible.last; ++i) {
      if (!std::ranges::binary_search(kept, i)) gone.push_back(i);
    }
    const std::vector<double> masses = masses_of(context, layer, head_kv);
    const auto into = nearest(keys_of(context, layer, head_kv), gone, kept);
    const KeyMatrix values = values_of(context, layer, head_kv);

    KeyMatrix sums = KeyMatrix::Zero(Eigen::Index(kept.size()), values.cols());
    std::vector<double> totals(kept.size());
    for (size_t j = 0; j < kept.size(); ++j) {
      totals[j] = masses[size_t(kept[j])];
      sums.row(Eigen::Index(j)) = float(totals[j]) * values.row(kept[j]);
    }
    for (size_t g = 0; g < gone.size(); ++g) {
      const double mass = masses[size_t(gone[g])];
      totals[size_t(into[g])] += mass;
      sums.row(into[g]) += float(mass) * values.row(gone[g]);
    }

    const auto first = std::ranges::lower_bound(row.keep, kept.front()) - row.keep.begin();
    row.log_weight.assign(row.keep.size(), 0);
    KeyMatrix changed = values(row.keep, Eigen::all);
    for (size_t j = 0; j < kept.size(); ++j) {
      if (!(totals[j] > 0)) continue;
      const double own = masses[size_t(kept[j])];
      row.log_weight[size_t(first) + j] = float(std::log(std::min(kMost, totals[j] / own)));
      changed.row(first + Eigen::Index(j)) = sums.row(Eigen::Index(j)) / float(totals[j]);
    }
    row.values.assign(changed.data(), changed.data() + changed.size());
  }
};

}  // namespace

WrapperRow merge_row() {
  return {.name = "merge",
          .summary =
              "what goes is folded into the entry that stays with the nearest key: its mass is "
              "added, the value becomes the mean by mass",
          .paper = "The risk of KV cache compression, arXiv 2607.01520",
          .formula =
              "a_i: attention of the last 32 positions; of the entries C_j nearest to j, w_j = min("
              "e^3, sum a_i / a_j), v_j <- sum a_i v_i / sum a_i",
          .differences = "quadratic in the entries: every pair of keys is compared",
          .knobs = {},
          .make = [](const KnobValues&) -> std::unique_ptr<Wrapper> {
            return std::make_unique<MergeWrapper>();
          }};
}

}  // namespace pith
