#include <algorithm>

#include "policy/attention_probs.h"
#include "policy/policies/policies.h"
#include "policy/score_rows.h"

namespace pith {

namespace {

constexpr Reading kLast{.source = Source::tail, .count = 1};

class TovaScorer : public Scorer {
 public:
  Needs needs() const override { return kLast.needs(); }

  Scores score(const PolicyContext& context) const override {
    kLast.positions(context, "tova");
    const auto bytes = [&](int layer, int) {
      size_t most = 0;
      for (int h = 0; h < context.cache.shape().n_head_kv; ++h) {
        most = std::max(most, attention_probs_bytes(context, layer, h, 1));
      }
      return most;
    };
    return score_each_row(context, bytes, [&](const ScoredRow& row) {
      std::ranges::fill(row.scores, 0.0F);
      for (int h = 0; h < context.cache.shape().n_head_kv; ++h) add_head(context, row, h);
    });
  }

 private:
  /// Adds what the query heads of a KV head of the layer pay to the positions of this row.
  static void add_head(const PolicyContext& context, const ScoredRow& row, int head_kv) {
    const auto probs = attention_probs(context, row.layer, head_kv, 1);
    const auto mine = context.cache.positions(row.layer, row.head_kv);
    const auto theirs = context.cache.positions(row.layer, head_kv);
    const auto heads = float(context.cache.shape().n_head);
    size_t at = 0;
    for (int i = 0; i < probs.entries; ++i) {
      while (at < mine.size() && mine[at] < theirs[size_t(i)]) ++at;
      if (at == mine.size() || mine[at] != theirs[size_t(i)]) continue;
      for (int head = 0; head < probs.rows; ++head) row.scores[at] += probs.at(i, head) / heads;
    }
  }
};

}  // namespace

ScoreRow tova_row() {
  return {.name = "tova",
          .summary = "entries that the last query attends to",
          .paper = "Oren et al., Transformers are Multi-State RNNs, arXiv 2401.06104",
          .formula = "attention of the last query, mean over all query heads of the layer",
          .differences = "one eviction after the prompt; the paper evicts at every token",
          .budget = "uniform",
          .phases = "prefill, generation",
          .knobs = {},
          .make = [](const KnobValues&) -> std::unique_ptr<Scorer> {
            return std::make_unique<TovaScorer>();
          },
          .attention = true};
}

}  // namespace pith
