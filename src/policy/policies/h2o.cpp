#include <algorithm>
#include <limits>

#include "policy/attention_scorer.h"
#include "policy/policies/policies.h"

namespace pith {

namespace {

class H2oScorer : public AttentionScorer {
 public:
  H2oScorer(const Reading& reading, double recent)
      : AttentionScorer("h2o", reading), recent_(recent) {}

 private:
  size_t row_bytes(const PolicyContext& context, int layer, int head_kv) const override {
    return attention_tile_bytes(context, reading(), layer, head_kv) +
           sizeof(int64_t) * size_t(context.cache.length(layer, head_kv));
  }

  void score_row(const PolicyContext& context, const ScoredRow& row) const override {
    const auto entries = context.cache.positions(row.layer, row.head_kv);
    std::vector<int64_t> seeing(row.scores.size());
    each_attention_tile(context, reading(), row.layer, row.head_kv,
                        [&](const AttentionProbs& tile) {
                          add(tile, row.scores);
                          count(tile, entries, seeing);
                        });
    for (size_t i = 0; i < row.scores.size(); ++i) {
      const float rows = float(seeing[i]) * float(context.cache.shape().group());
      row.scores[i] = rows > 0 ? row.scores[i] / rows : 0;
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

  /// Positions of the tile that see each entry.
  static void count(const AttentionProbs& tile, std::span<const int32_t> entries,
                    std::span<int64_t> seeing) {
    for (int i = 0; i < tile.entries; ++i) {
      const auto first = std::ranges::lower_bound(tile.positions, entries[size_t(i)]);
      seeing[size_t(i)] += tile.positions.end() - first;
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
              "sum over the queries of `source` of attention / number of them that could see the "
              "entry, "
              "mean over the group; the newest `recent` of the budget first",
          .differences =
              "one eviction after the prompt with every query's attention; the paper "
              "evicts at every token and does not divide",
          .budget = "uniform",
          .knobs = attention_knobs(Source::prompt, 32,
                                   {{.name = "recent",
                                     .value = "0.5",
                                     .min = 0,
                                     .max = 1,
                                     .choices = {},
                                     .help = "part of the budget for the newest entries"}}),
          .make = [](const KnobValues& knobs) -> std::unique_ptr<Scorer> {
            return std::make_unique<H2oScorer>(reading_of(knobs), knobs.number("recent"));
          },
          .attention = true};
}

}  // namespace pith
