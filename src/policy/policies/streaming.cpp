#include <algorithm>

#include "policy/policies/policies.h"
#include "policy/score_rows.h"

namespace pith {

namespace {

class StreamingScorer : public Scorer {
 public:
  Scores score(const PolicyContext& context) const override {
    const auto no_scratch = [](int, int) { return size_t{0}; };
    return score_each_row(context, no_scratch, [&](const ScoredRow& row) {
      const auto positions = context.cache.positions(row.layer, row.head_kv);
      std::copy(positions.begin(), positions.end(), row.scores.begin());
    });
  }
};

}  // namespace

ScoreRow streaming_row() {
  return {.name = "streaming",
          .summary = "the attention sinks and the most recent entries",
          .paper =
              "Xiao et al., Efficient Streaming Language Models with Attention Sinks, "
              "arXiv 2309.17453",
          .formula = "position; the sinks are the protected ones",
          .differences =
              "entries keep the positions they were read at, the paper renumbers them; "
              "applied once to the prompt, not at every token",
          .budget = "uniform",
          .knobs = {},
          .make = [](const KnobValues&) -> std::unique_ptr<Scorer> {
            return std::make_unique<StreamingScorer>();
          }};
}

}  // namespace pith
