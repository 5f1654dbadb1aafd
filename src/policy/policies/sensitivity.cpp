#include "pith/calibration.hpp"
#include "policy/attention_scorer.h"
#include "policy/keys.h"
#include "policy/policies/policies.h"

namespace pith {

namespace {

/// 1 - alpha is not taken below this, so that an entry with all of the attention stays finite.
constexpr float kLeastRest = 1e-3F;
/// Entries taken at a time.
constexpr Eigen::Index kBlock = 256;

class SensitivityScorer : public AttentionScorer {
 public:
  explicit SensitivityScorer(const Reading& reading)
      : AttentionScorer("sensitivity", {reading.source, reading.count, true}) {}

  Needs needs() const override { return AttentionScorer::needs() | Needs{.calibration = true}; }

 private:
  size_t row_bytes(const PolicyContext& context, int layer, int head_kv) const override {
    // Beside the probabilities: weights made of them, values, and outputs summed for each entry.
    return 2 * attention_tile_bytes(context, reading(), layer, head_kv) +
           2 * keys_bytes(context, layer, head_kv);
  }

  void score_row(const PolicyContext& context, const ScoredRow& row) const override {
    const KeyMatrix values = values_of(context, row.layer, row.head_kv);
    const auto positions = float(reading().positions(context, "sensitivity"));
    const Eigen::ArrayXf half = sensitivity_of(context, row) / (2 * positions);
    each_attention_tile(context, reading(), row.layer, row.head_kv,
                        [&](const AttentionProbs& tile) { add(tile, values, half, row.scores); });
  }

  /// Of the query heads of a group; 1 each without a calibration.
  static Eigen::ArrayXf sensitivity_of(const PolicyContext& context, const ScoredRow& row) {
    const ModelShape& shape = context.cache.shape();
    const int group = shape.group();
    if (context.calibration == nullptr) return Eigen::ArrayXf::Ones(group);
    const int first = row.layer * shape.n_head + row.head_kv * group;
    return Eigen::Map<const Eigen::ArrayXf>(context.calibration->sensitivity.data() + first, group);
  }

  /// With b = s (a / (1 - a))^2 for an entry i and the rows r of the tile, sum_r b_ir ||o_r -
  /// v_i||^2 is sum_r b_ir ||o_r||^2 - 2 v_i.(sum_r b_ir o_r) + ||v_i||^2 sum_r b_ir. By blocks of
  /// entries, so that what is made along the way stays in the cores' own memory.
  static void add(const AttentionProbs& tile, const KeyMatrix& all,
                  const Eigen::ArrayXf& sensitivity, std::span<float> sums) {
    const KeyMatrix outputs = outputs_of(tile, all);
    const Eigen::VectorXf output_norms = outputs.rowwise().squaredNorm();
    const Eigen::Map<const KeyMatrix> alpha(tile.alpha.data(), tile.entries, tile.rows);
    const Eigen::ArrayXf by_row = sensitivity.replicate(tile.rows / sensitivity.size(), 1);
    KeyMatrix b, summed;
    for (Eigen::Index at = 0; at < tile.entries; at += kBlock) {
      const Eigen::Index count = std::min<Eigen::Index>(kBlock, tile.entries - at);
      const auto values = all.middleRows(at, count);
      const auto paid = alpha.middleRows(at, count).array();
      b = ((paid / (1 - paid).max(kLeastRest)).square().rowwise() * by_row.transpose()).matrix();
      summed.noalias() = b * outputs;
      const Eigen::ArrayXf cost =
          (b * output_norms).array() - 2 * values.cwiseProduct(summed).rowwise().sum().array() +
          values.rowwise().squaredNorm().array() * b.rowwise().sum().array();
      Eigen::Map<Eigen::ArrayXf>(sums.data() + at, count) += cost.max(0);
    }
  }
};

}  // namespace

ScoreRow sensitivity_row() {
  return {.name = "sensitivity",
          .summary =
              "entries without which the next-token distribution would move most, by how sensitive "
              "it is to each head on average",
          .paper =
              "the deletion counterfactual of Behavior-Preserving KV Cache Compression, "
              "arXiv 2610.06479, with a sensitivity measured once a model",
          .formula =
              "mean over the queries of `source` of the sum over the group's heads of "
              "s/2 (alpha/(1 - alpha))^2 ||o - v||^2; s the head's sensitivity from the model's "
              "calibration, 1 without one",
          .differences =
              "the paper's sensitivity is that of the scoring position's own direct path; here it "
              "is one number a head, averaged over positions and directions, of all paths",
          .budget = "global",
          .knobs = attention_knobs(Source::tail, 32),
          .make = [](const KnobValues& knobs) -> std::unique_ptr<Scorer> {
            return std::make_unique<SensitivityScorer>(reading_of(knobs));
          },
          .attention = true};
}

}  // namespace pith
