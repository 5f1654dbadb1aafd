#include <algorithm>
#include <cmath>

#include "policy/attention_probs.h"
#include "policy/keys.h"
#include "policy/policies/policies.h"
#include "policy/score_rows.h"

namespace pith {

namespace {

/// 1 - alpha is not taken below this, so that an entry with all of the attention stays finite.
constexpr float kLeastRest = 1e-6F;

class CaoteScorer : public Scorer {
 public:
  explicit CaoteScorer(int window) : reading_{.source = Source::tail, .count = window} {}

  Needs needs() const override { return reading_.needs(); }

  Scores score(const PolicyContext& context) const override {
    const auto positions = float(reading_.positions(context, "caote"));
    const auto bytes = [&](int layer, int head_kv) {
      // Beside the probabilities: values, their products with the outputs.
      return 2 * attention_tile_bytes(context, reading_, layer, head_kv) +
             keys_bytes(context, layer, head_kv);
    };
    const float rows = positions * float(context.cache.shape().group());
    return score_each_row(context, bytes, [&](const ScoredRow& row) {
      const KeyMatrix values = values_of(context, row.layer, row.head_kv);
      std::ranges::fill(row.scores, 0.0F);
      each_attention_tile(
          context, reading_, row.layer, row.head_kv,
          [&](const AttentionProbs& tile, int32_t) { add(tile, values, row.scores); });
      for (float& score : row.scores) score /= rows;
    });
  }

 private:
  /// ||o - v||^2 = ||o||^2 - 2 o.v + ||v||^2.
  static void add(const AttentionProbs& tile, const KeyMatrix& all, std::span<float> sums) {
    const auto values = all.topRows(tile.entries);
    const Eigen::Map<const KeyMatrix> alpha(tile.alpha.data(), tile.entries, tile.rows);
    const KeyMatrix outputs = alpha.transpose() * values;
    const KeyMatrix products = values * outputs.transpose();
    const Eigen::ArrayXf output_norms = outputs.rowwise().squaredNorm();
    for (Eigen::Index i = 0; i < values.rows(); ++i) {
      const auto a = alpha.row(i).transpose().array();
      const Eigen::ArrayXf squared =
          output_norms - 2 * products.row(i).transpose().array() + values.row(i).squaredNorm();
      sums[size_t(i)] += (a / (1 - a).max(kLeastRest) * squared.max(0).sqrt()).sum();
    }
  }

  Reading reading_;
};

}  // namespace

ScoreRow caote_row() {
  return {.name = "caote",
          .summary = "entries without which the head's output would move most",
          .paper =
              "Goel et al., CAOTE: KV Cache Selection for LLMs via Attention Output Error-Based "
              "Token Eviction, arXiv 2504.14051",
          .formula =
              "mean over the last `window` queries and the group of alpha / (1 - alpha) "
              "||o - v||",
          .differences =
              "with the attention of a window, where the paper takes that of the method it "
              "is added to; one eviction after the prompt",
          .budget = "uniform",
          .phases = "prefill, generation",
          .knobs = {{.name = "window",
                     .value = "32",
                     .min = 1,
                     .max = 64,
                     .integer = true,
                     .choices = {},
                     .help = "last positions whose attention counts"}},
          .make = [](const KnobValues& knobs) -> std::unique_ptr<Scorer> {
            return std::make_unique<CaoteScorer>(knobs.integer("window"));
          },
          .attention = true};
}

}  // namespace pith
