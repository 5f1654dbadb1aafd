#include "policy/keys.h"
#include "policy/policies/policies.h"
#include "policy/score_rows.h"

namespace pith {

namespace {

class KeyDiffScorer : public Scorer {
 public:
  Scores score(const PolicyContext& context) const override {
    const auto bytes = [&](int layer, int head_kv) { return keys_bytes(context, layer, head_kv); };
    return score_each_row(context, bytes, [&](const ScoredRow& row) {
      KeyMatrix keys = keys_of(context, row.layer, row.head_kv);
      keys.rowwise().normalize();
      const Eigen::VectorXf anchor = keys.colwise().mean().transpose().normalized();
      Eigen::Map<Eigen::VectorXf>(row.scores.data(), keys.rows()) = -(keys * anchor);
    });
  }
};

}  // namespace

ScoreRow keydiff_row() {
  return {.name = "keydiff",
          .summary = "entries whose keys point away from the others'",
          .paper =
              "Park et al., KeyDiff: Key Similarity-Based KV Cache Eviction for Long-Context "
              "LLM Inference in Resource-Constrained Environments, arXiv 2504.15364",
          .formula = "-cos(k, mean of k/||k||)",
          .differences = "applied once to the whole prompt, not block by block",
          .budget = "uniform",
          .knobs = {},
          .make = [](const KnobValues&) -> std::unique_ptr<Scorer> {
            return std::make_unique<KeyDiffScorer>();
          }};
}

}  // namespace pith
