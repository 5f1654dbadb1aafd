#include <algorithm>
#include <limits>

#include "policy/attention_probs.h"
#include "policy/policies/policies.h"
#include "policy/score_rows.h"

namespace pith {

namespace {

constexpr Reading kPrompt{.source = Source::prompt};

class H2oScorer : public Scorer {
 public:
  explicit H2oScorer(double recent) : recent_(recent) {}

  Needs needs() const override { return kPrompt.needs(); }

  Scores score(const PolicyContext& context) const override {
    kPrompt.positions(context, "h2o");
    const auto bytes = [&](int layer, int head_kv) {
      return attention_tile_bytes(context, kPrompt, layer, head_kv);
    };
    return score_each_row(context, bytes, [&](const ScoredRow& row) { score_row(context, row); });
  }

 private:
  void score_row(const PolicyContext& context, const ScoredRow& row) const {
    std::ranges::fill(row.scores, 0.0F);
    each_attention_tile(context, kPrompt, row.layer, row.head_kv,
                        [&](const AttentionProbs& tile, int32_t) { add(tile, row.scores); });
    const auto& asking = context.prompt->positions;
    const auto entries = context.cache.positions(row.layer, row.head_kv);
    for (size_t i = 0; i < row.scores.size(); ++i) {
      const auto seeing = asking.end() - std::ranges::lower_bound(asking, entries[i]);
      const auto count = float(seeing) * float(context.cache.shape().group());
      row.scores[i] = count > 0 ? row.scores[i] / count : 0;
    }
    put_recent_first(context, row.scores);
  }

  static void add(const AttentionProbs& tile, std::span<float> sums) {
    for (int i = 0; i < tile.entries; ++i) {
      const float* alpha = tile.alpha.data() + size_t(i) * size_t(tile.rows);
      float sum = 0;
      for (int row = 0; row < tile.rows; ++row) sum += alpha[row];
      sums[size_t(i)] += sum;
    }
  }

  /// The newest `recent` of an equal share of the budget stay.
  void put_recent_first(const PolicyContext& context, std::span<float> scores) const {
    const double kept = double(context.keep_total) / context.cache.shape().n_rows();
    const auto newest = std::min(scores.size(), size_t(recent_ * kept));
    std::ranges::fill(scores.last(newest), std::numeric_limits<float>::infinity());
  }

  double recent_;
};

}  // namespace

ScoreRow h2o_row() {
  return {.name = "h2o",
          .summary = "entries that all queries of the prompt attended to, and the most recent ones",
          .paper =
              "Zhang et al., H2O: Heavy-Hitter Oracle for Efficient Generative Inference of "
              "Large Language Models, arXiv 2306.14048",
          .formula =
              "sum over all queries of attention / number of queries that could see the entry, "
              "mean over the group; the newest `recent` of the budget first",
          .differences =
              "one eviction after the prompt with every query's attention; the paper "
              "evicts at every token and does not divide",
          .budget = "uniform",
          .phases = "prefill",
          .knobs = {{.name = "recent",
                     .value = "0.5",
                     .min = 0,
                     .max = 1,
                     .choices = {},
                     .help = "part of the budget for the newest entries"}},
          .make = [](const KnobValues& knobs) -> std::unique_ptr<Scorer> {
            return std::make_unique<H2oScorer>(knobs.number("recent"));
          },
          .attention = true};
}

}  // namespace pith
