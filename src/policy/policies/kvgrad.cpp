#include <algorithm>

#include "policy/attention_scorer.h"
#include "policy/policies/policies.h"
#include "policy/value_norms.h"

namespace pith {

namespace {

class KvgradScorer : public AttentionScorer {
 public:
  explicit KvgradScorer(const Reading& reading) : AttentionScorer("kvgrad", reading) {}

 private:
  size_t row_bytes(const PolicyContext& context, int layer, int head_kv) const override {
    return attention_tile_bytes(context, reading(), layer, head_kv) +
           projected_value_norm_bytes(context, layer, head_kv);
  }

  void score_row(const PolicyContext& context, const ScoredRow& row) const override {
    const auto lengths = projected_value_lengths(context, row.layer, row.head_kv);
    each_attention_tile(context, reading(), row.layer, row.head_kv,
                        [&](const AttentionProbs& tile) { raise(tile, lengths, row.scores); });
  }

  /// `lengths` is [length, group], as the rows of a position are.
  static void raise(const AttentionProbs& tile, const std::vector<float>& lengths,
                    std::span<float> scores) {
    const size_t group = lengths.size() / scores.size();
    for (int i = 0; i < tile.entries; ++i) {
      const float* length = lengths.data() + size_t(i) * group;
      for (int row = 0; row < tile.rows; ++row) {
        scores[size_t(i)] =
            std::max(scores[size_t(i)], tile.at(i, row) * length[size_t(row) % group]);
      }
    }
  }
};

}  // namespace

ScoreRow kvgrad_row() {
  return {.name = "kvgrad",
          .summary =
              "entries that write most into the residual stream when the model is told to repeat "
              "the prompt",
          .paper = "KVgrad (openreview.net/forum?id=cg1wTCJjjk), as kvpress 0.5.5 has it",
          .formula = "maximum over the queries of `source` and the group of alpha ||W_O v||_2",
          .differences =
              "without its gradient: the method also multiplies by how much the last layer's "
              "states answer to a query's attention output, found by a backward pass; here "
              "that is 1 for all layers and queries. Prompts are repeated as for kvzip",
          .budget = "global",
          .knobs = attention_knobs(Source::repeat, 32),
          .make = [](const KnobValues& knobs) -> std::unique_ptr<Scorer> {
            return std::make_unique<KvgradScorer>(reading_of(knobs));
          },
          .attention = true};
}

}  // namespace pith
