#include <algorithm>

#include "policy/attention_probs.h"
#include "policy/policies/policies.h"
#include "policy/score_rows.h"

namespace pith {

namespace {

constexpr Reading kRepeat{.source = Source::repeat};

class KvzipScorer : public Scorer {
 public:
  Needs needs() const override { return kRepeat.needs(); }

  Scores score(const PolicyContext& context) const override {
    kRepeat.positions(context, "kvzip");
    const auto bytes = [&](int layer, int head_kv) {
      return attention_tile_bytes(context, kRepeat, layer, head_kv);
    };
    return score_each_row(context, bytes, [&](const ScoredRow& row) {
      std::ranges::fill(row.scores, 0.0F);
      each_attention_tile(context, kRepeat, row.layer, row.head_kv,
                          [&](const AttentionProbs& tile, int32_t) { raise(tile, row.scores); });
    });
  }

 private:
  static void raise(const AttentionProbs& tile, std::span<float> scores) {
    for (int i = 0; i < tile.entries; ++i) {
      const auto first = tile.alpha.begin() + ptrdiff_t(i) * tile.rows;
      scores[size_t(i)] = std::max(scores[size_t(i)], *std::max_element(first, first + tile.rows));
    }
  }
};

}  // namespace

ScoreRow kvzip_row() {
  return {.name = "kvzip",
          .summary = "entries that the model reads when it is told to repeat the prompt",
          .paper =
              "Kim et al., KVzip: Query-Agnostic KV Cache Compression with Context "
              "Reconstruction, arXiv 2505.23416",
          .formula = "maximum attention over the queries of the repeat pass and the group",
          .differences =
              "prompts over 2048 tokens are repeated in parts, as in the paper, but every "
              "part scores all entries, not those of its own part alone",
          .budget = "global",
          .phases = "prefill",
          .knobs = {},
          .make = [](const KnobValues&) -> std::unique_ptr<Scorer> {
            return std::make_unique<KvzipScorer>();
          },
          .attention = true};
}

}  // namespace pith
