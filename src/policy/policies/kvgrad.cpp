#include <algorithm>

#include "policy/attention_probs.h"
#include "policy/policies/policies.h"
#include "policy/score_rows.h"
#include "policy/value_norms.h"

namespace pith {

namespace {

constexpr Reading kRepeat{.source = Source::repeat};

class KvgradScorer : public Scorer {
 public:
  Needs needs() const override { return kRepeat.needs(); }

  Scores score(const PolicyContext& context) const override {
    kRepeat.positions(context, "kvgrad");
    const auto bytes = [&](int layer, int head_kv) {
      return attention_tile_bytes(context, kRepeat, layer, head_kv) +
             projected_value_norm_bytes(context, layer, head_kv);
    };
    return score_each_row(context, bytes, [&](const ScoredRow& row) {
      const auto lengths = projected_value_lengths(context, row.layer, row.head_kv);
      std::ranges::fill(row.scores, 0.0F);
      each_attention_tile(
          context, kRepeat, row.layer, row.head_kv,
          [&](const AttentionProbs& tile, int32_t) { raise(tile, lengths, row.scores); });
    });
  }

 private:
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
  return {
      .name = "kvgrad",
      .summary =
          "entries that write most into the residual stream when the model is told to repeat "
          "the prompt",
      .paper = "KVgrad (openreview.net/forum?id=cg1wTCJjjk), as kvpress 0.5.5 has it",
      .formula = "maximum over the queries of the repeat pass and the group of alpha ||W_O v||_2",
      .differences =
          "without its gradient: the method also multiplies by how much the last layer's "
          "states answer to a query's attention output, found by a backward pass; here "
          "that is 1 for all layers and queries. Prompts are repeated as for kvzip",
      .budget = "global",
      .phases = "prefill",
      .knobs = {},
      .make = [](const KnobValues&) -> std::unique_ptr<Scorer> {
        return std::make_unique<KvgradScorer>();
      },
      .attention = true};
}

}  // namespace pith
