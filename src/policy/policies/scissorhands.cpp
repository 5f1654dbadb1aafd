#include <algorithm>

#include "policy/attention_scorer.h"
#include "policy/policies/policies.h"

namespace pith {

namespace {

class ScissorhandsScorer : public AttentionScorer {
 public:
  explicit ScissorhandsScorer(const Reading& reading) : AttentionScorer("scissorhands", reading) {}

 private:
  void score_row(const PolicyContext& context, const ScoredRow& row) const override {
    const auto entries = context.cache.positions(row.layer, row.head_kv);
    const int group = context.cache.shape().group();
    each_attention_tile(context, reading(), row.layer, row.head_kv,
                        [&](const AttentionProbs& tile) {
                          add_counts(tile, means(entries, tile.positions, group), row.scores);
                        });
  }

  /// Mean attention of each row of a tile: one over the entries that it sees.
  static std::vector<float> means(std::span<const int32_t> entries, std::span<const int32_t> asking,
                                  int group) {
    std::vector<float> out;
    for (const int32_t position : asking) {
      const auto seen = std::ranges::upper_bound(entries, position) - entries.begin();
      out.insert(out.end(), size_t(group), 1.0F / float(std::max<ptrdiff_t>(1, seen)));
    }
    return out;
  }

  static void add_counts(const AttentionProbs& tile, const std::vector<float>& means,
                         std::span<float> counts) {
    for (int i = 0; i < tile.entries; ++i) {
      for (int row = 0; row < tile.rows; ++row) {
        counts[size_t(i)] += tile.at(i, row) > means[size_t(row)] ? 1.0F : 0.0F;
      }
    }
  }
};

}  // namespace

ScoreRow scissorhands_row() {
  return {
      .name = "scissorhands",
      .summary = "entries that often got more than the average attention",
      .paper =
          "Liu et al., Scissorhands: Exploiting the Persistence of Importance Hypothesis for "
          "LLM KV Cache Compression at Test Time, arXiv 2305.17118",
      .formula = "number of (query of `source`, head of the group) with alpha > 1 / entries seen",
      .differences =
          "counts over the whole prompt instead of a history window; one eviction after "
          "the prompt",
      .budget = "uniform",
      .knobs = attention_knobs(Source::prompt, 32),
      .make = [](const KnobValues& knobs) -> std::unique_ptr<Scorer> {
        return std::make_unique<ScissorhandsScorer>(reading_of(knobs));
      },
      .attention = true};
}

}  // namespace pith
