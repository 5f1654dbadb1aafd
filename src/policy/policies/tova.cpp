#include <algorithm>

#include "policy/attention_scorer.h"
#include "policy/policies/policies.h"

namespace pith {

namespace {

class TovaScorer : public AttentionScorer {
 public:
  explicit TovaScorer(const Reading& reading) : AttentionScorer("tova", reading) {}

 private:
  size_t row_bytes(const PolicyContext& context, int layer, int /*head_kv*/) const override {
    size_t most = 0;
    for (int h = 0; h < context.cache.shape().n_head_kv; ++h) {
      most = std::max(most, attention_tile_bytes(context, reading(), layer, h));
    }
    return most;
  }

  void score_row(const PolicyContext& context, const ScoredRow& row) const override {
    int64_t rows = 0;
    for (int h = 0; h < context.cache.shape().n_head_kv; ++h) {
      const auto theirs = context.cache.positions(row.layer, h);
      each_attention_tile(context, reading(), row.layer, h, [&](const AttentionProbs& tile) {
        add(tile, theirs, context.cache.positions(row.layer, row.head_kv), row.scores);
        rows += tile.rows;
      });
    }
    for (float& score : row.scores) score /= float(rows);
  }

  /// Adds what the query heads of a KV head of the layer, whose entries are at `theirs`, pay to the
  /// positions `mine` of a row.
  static void add(const AttentionProbs& tile, std::span<const int32_t> theirs,
                  std::span<const int32_t> mine, std::span<float> sums) {
    size_t at = 0;
    for (int i = 0; i < tile.entries; ++i) {
      while (at < mine.size() && mine[at] < theirs[size_t(i)]) ++at;
      if (at == mine.size() || mine[at] != theirs[size_t(i)]) continue;
      for (int row = 0; row < tile.rows; ++row) sums[at] += tile.at(i, row);
    }
  }
};

}  // namespace

ScoreRow tova_row() {
  return {
      .name = "tova",
      .summary = "entries that the last query attends to",
      .paper = "Oren et al., Transformers are Multi-State RNNs, arXiv 2401.06104",
      .formula =
          "attention of the last query, or mean over those of `source`; mean over all query heads "
          "of the layer",
      .differences = "one eviction after the prompt; the paper evicts at every token",
      .budget = "uniform",
      .knobs = attention_knobs(Source::tail, 1),
      .make = [](const KnobValues& knobs) -> std::unique_ptr<Scorer> {
        return std::make_unique<TovaScorer>(reading_of(knobs));
      },
      .attention = true};
}

}  // namespace pith
