#include <Eigen/Core>

#include "policy/keys.h"
#include "policy/policies/policies.h"
#include "policy/score_rows.h"

namespace pith {

namespace {

class KnormScorer : public Scorer {
 public:
  Scores score(const PolicyContext& context) const override {
    const auto bytes = [&](int layer, int head_kv) { return keys_bytes(context, layer, head_kv); };
    return score_each_row(context, bytes, [&](const ScoredRow& row) {
      const KeyMatrix keys = keys_of(context, row.layer, row.head_kv);
      for (Eigen::Index i = 0; i < keys.rows(); ++i) row.scores[size_t(i)] = -keys.row(i).norm();
    });
  }
};

}  // namespace

ScoreRow knorm_row() {
  return {.name = "knorm",
          .summary = "entries with short keys",
          .paper =
              "Devoto et al., A Simple and Effective L2 Norm-Based Strategy for KV Cache "
              "Compression, arXiv 2406.11430",
          .formula = "-||k||",
          .differences = "applied to all layers; the paper leaves the first two whole",
          .budget = "uniform",
          .knobs = {},
          .make = [](const KnobValues&) -> std::unique_ptr<Scorer> {
            return std::make_unique<KnormScorer>();
          }};
}

}  // namespace pith
