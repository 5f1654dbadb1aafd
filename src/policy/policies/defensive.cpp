#include <algorithm>
#include <numeric>

#include "policy/attention_probs.h"
#include "policy/policies/policies.h"
#include "policy/score_rows.h"
#include "policy/value_norms.h"

namespace pith {

namespace {

class DefensiveScorer : public Scorer {
 public:
  explicit DefensiveScorer(int window) : reading_{.source = Source::tail, .count = window} {}

  Needs needs() const override { return reading_.needs(); }

  Scores score(const PolicyContext& context) const override {
    reading_.positions(context, "defensive");
    const auto bytes = [&](int layer, int head_kv) {
      return std::max(attention_tile_bytes(context, reading_, layer, head_kv),
                      projected_value_norm_bytes(context, layer, head_kv));
    };
    return score_each_row(context, bytes, [&](const ScoredRow& row) { score_row(context, row); });
  }

 private:
  void score_row(const PolicyContext& context, const ScoredRow& row) const {
    std::ranges::fill(row.scores, 0.0F);
    each_attention_tile(context, reading_, row.layer, row.head_kv,
                        [&](const AttentionProbs& tile, int32_t) {
                          for (int i = 0; i < tile.entries; ++i) {
                            const auto first = tile.alpha.begin() + ptrdiff_t(i) * tile.rows;
                            float& worst = row.scores[size_t(i)];
                            worst = std::max(worst, *std::max_element(first, first + tile.rows));
                          }
                        });
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

  Reading reading_;
};

}  // namespace

ScoreRow defensive_row() {
  return {.name = "defensive",
          .summary = "entries by the most attention they ever got, never below the head's mean",
          .paper =
              "Feng et al., Taming the Fragility of KV Cache Eviction in LLM Inference, "
              "arXiv 2510.13334",
          .formula =
              "max(max over the last `window` queries and the group of alpha, its mean over "
              "the entries) x ||W_O v||_1 / its mean over the entries",
          .differences = "`defensive+global` is the paper's form in which layers compete too",
          .budget = "ada",
          .phases = "prefill",
          .knobs = {{.name = "window",
                     .value = "32",
                     .min = 1,
                     .max = 64,
                     .integer = true,
                     .choices = {},
                     .help = "last positions whose attention counts"}},
          .make = [](const KnobValues& knobs) -> std::unique_ptr<Scorer> {
            return std::make_unique<DefensiveScorer>(knobs.integer("window"));
          },
          .attention = true};
}

}  // namespace pith
