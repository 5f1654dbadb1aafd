#include <algorithm>

#include "policy/attention_probs.h"
#include "policy/policies/policies.h"
#include "policy/score_rows.h"

namespace pith {

namespace {

constexpr Reading kPrompt{.source = Source::prompt};

class ScissorhandsScorer : public Scorer {
 public:
  Needs needs() const override { return kPrompt.needs(); }

  Scores score(const PolicyContext& context) const override {
    kPrompt.positions(context, "scissorhands");
    const auto bytes = [&](int layer, int head_kv) {
      return attention_tile_bytes(context, kPrompt, layer, head_kv);
    };
    return score_each_row(context, bytes, [&](const ScoredRow& row) {
      std::ranges::fill(row.scores, 0.0F);
      const auto entries = context.cache.positions(row.layer, row.head_kv);
      const int group = context.cache.shape().group();
      size_t t = 0;
      each_attention_tile(
          context, kPrompt, row.layer, row.head_kv, [&](const AttentionProbs& tile, int32_t) {
            const size_t count = size_t(tile.rows / group);
            const auto asking = std::span(context.prompt->positions).subspan(t, count);
            add_counts(tile, means(entries, asking, group), row.scores);
            t += count;
          });
    });
  }

 private:
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
      .formula = "number of (query, head of the group) of the prompt with alpha > 1 / entries seen",
      .differences =
          "counts over the whole prompt instead of a history window; one eviction after "
          "the prompt",
      .budget = "uniform",
      .phases = "prefill",
      .knobs = {},
      .make = [](const KnobValues&) -> std::unique_ptr<Scorer> {
        return std::make_unique<ScissorhandsScorer>();
      },
      .attention = true};
}

}  // namespace pith
