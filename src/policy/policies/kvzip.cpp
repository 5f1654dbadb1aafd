#include "policy/attention_scorer.h"
#include "policy/policies/policies.h"

namespace pith {

namespace {

class KvzipScorer : public AttentionScorer {
 public:
  explicit KvzipScorer(const Reading& reading) : AttentionScorer("kvzip", reading) {}

 private:
  void score_row(const PolicyContext& context, const ScoredRow& row) const override {
    each_attention_tile(context, reading(), row.layer, row.head_kv,
                        [&](const AttentionProbs& tile) { raise_to_most(tile, row.scores); });
  }
};

}  // namespace

ScoreRow kvzip_row() {
  return {.name = "kvzip",
          .summary = "entries that the model reads when it is told to repeat the prompt",
          .paper =
              "Kim et al., KVzip: Query-Agnostic KV Cache Compression with Context "
              "Reconstruction, arXiv 2505.23416",
          .formula = "maximum attention over the queries of `source` and the group",
          .differences =
              "prompts over 2048 tokens are repeated in parts, as in the paper, but every "
              "part scores all entries, not those of its own part alone",
          .budget = "global",
          .knobs = attention_knobs(Source::repeat, 32),
          .make = [](const KnobValues& knobs) -> std::unique_ptr<Scorer> {
            return std::make_unique<KvzipScorer>(reading_of(knobs));
          },
          .attention = true};
}

}  // namespace pith
