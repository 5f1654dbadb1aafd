#include <algorithm>
#include <numeric>

#include "policy/attention_scorer.h"
#include "policy/policies/policies.h"
#include "policy/value_norms.h"

namespace pith {

namespace {

class DefensiveScorer : public AttentionScorer {
 public:
  explicit DefensiveScorer(const Reading& reading) : AttentionScorer("defensive", reading) {}

 private:
  size_t row_bytes(const PolicyContext& context, int layer, int head_kv) const override {
    return std::max(attention_tile_bytes(context, reading(), layer, head_kv),
                    projected_value_norm_bytes(context, layer, head_kv));
  }

  void score_row(const PolicyContext& context, const ScoredRow& row) const override {
    each_attention_tile(context, reading(), row.layer, row.head_kv,
                        [&](const AttentionProbs& tile) { raise_to_most(tile, row.scores); });
    const auto norms = projected_value_norms(context, row.layer, row.head_kv);
    const float least = mean(row.scores);
    const float length = std::max(mean(norms), std::numeric_limits<float>::min());
    for (size_t i = 0; i < row.scores.size(); ++i) {
      row.scores[i] = std::max(row.scores[i], least) * norms[i] / length;
    }
  }

  static float mean(std::span<const float> values) {
    return std::accumulate(values.begin(), values.end(), 0.0F) /
           float(std::max<size_t>(1, values.size()));
  }
};

}  // namespace

ScoreRow defensive_row() {
  return {.name = "defensive",
          .summary = "entries by the most attention they ever got, never below the head's mean",
          .paper =
              "Feng et al., Taming the Fragility of KV Cache Eviction in LLM Inference, "
              "arXiv 2510.13334",
          .formula =
              "max(max over the queries of `source` and the group of alpha, its mean over the "
              "entries) x ||W_O v||_1 / its mean over the entries",
          .differences = "`defensive+global` is the paper's form in which layers compete too",
          .budget = "ada",
          .knobs = attention_knobs(Source::tail, 32),
          .make = [](const KnobValues& knobs) -> std::unique_ptr<Scorer> {
            return std::make_unique<DefensiveScorer>(reading_of(knobs));
          },
          .attention = true};
}

}  // namespace pith
