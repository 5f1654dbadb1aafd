#include <algorithm>
#include <cmath>

#include "policy/attention_scorer.h"
#include "policy/keys.h"
#include "policy/policies/policies.h"

namespace pith {

namespace {

/// 1 - alpha is not taken below this, so that an entry with all of the attention stays finite.
constexpr float kLeastRest = 1e-6F;

class CaoteScorer : public AttentionScorer {
 public:
  explicit CaoteScorer(const Reading& reading)
      : AttentionScorer("caote", {reading.source, reading.count, true}) {}

 private:
  size_t row_bytes(const PolicyContext& context, int layer, int head_kv) const override {
    // Beside the probabilities: values, their products with the outputs.
    return 2 * attention_tile_bytes(context, reading(), layer, head_kv) +
           keys_bytes(context, layer, head_kv);
  }

  void score_row(const PolicyContext& context, const ScoredRow& row) const override {
    const KeyMatrix values = values_of(context, row.layer, row.head_kv);
    int64_t rows = 0;
    each_attention_tile(context, reading(), row.layer, row.head_kv,
                        [&](const AttentionProbs& tile) {
                          add(tile, values, row.scores);
                          rows += tile.rows;
                        });
    for (float& score : row.scores) score /= float(rows);
  }

  /// ||o - v||^2 = ||o||^2 - 2 o.v + ||v||^2.
  static void add(const AttentionProbs& tile, const KeyMatrix& all, std::span<float> sums) {
    const auto values = all.topRows(tile.entries);
    const Eigen::Map<const KeyMatrix> alpha(tile.alpha.data(), tile.entries, tile.rows);
    const KeyMatrix outputs = outputs_of(tile, all);
    const KeyMatrix products = values * outputs.transpose();
    const Eigen::ArrayXf output_norms = outputs.rowwise().squaredNorm();
    for (Eigen::Index i = 0; i < values.rows(); ++i) {
      const auto a = alpha.row(i).transpose().array();
      const Eigen::ArrayXf squared =
          output_norms - 2 * products.row(i).transpose().array() + values.row(i).squaredNorm();
      sums[size_t(i)] += (a / (1 - a).max(kLeastRest) * squared.max(0).sqrt()).sum();
    }
  }
};

}  // namespace

ScoreRow caote_row() {
  return {
      .name = "caote",
      .summary = "entries without which the head's output would move most",
      .paper =
          "Goel et al., CAOTE: KV Cache Selection for LLMs via Attention Output Error-Based "
          "Token Eviction, arXiv 2504.14051",
      .formula = "mean over the queries of `source` and the group of alpha / (1 - alpha) ||o - v||",
      .differences =
          "with the attention of `source`, where the paper takes that of the method it "
          "is added to; one eviction after the prompt",
      .budget = "uniform",
      .knobs = attention_knobs(Source::tail, 32),
      .make = [](const KnobValues& knobs) -> std::unique_ptr<Scorer> {
        return std::make_unique<CaoteScorer>(reading_of(knobs));
      },
      .attention = true};
}

}  // namespace pith
