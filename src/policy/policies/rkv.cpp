#include <algorithm>
#include <limits>

#include "policy/attention_scorer.h"
#include "policy/keys.h"
#include "policy/policies/policies.h"
#include "policy/smoothing.h"

namespace pith {

namespace {

struct RkvOptions {
  double lambda = 0;
  int kernel = 0;
  double threshold = 0;
  int recent = 0;
};

/// The keys at length 1; a key of zeros stays.
KeyMatrix directions_of(const PolicyContext& context, const ScoredRow& row) {
  KeyMatrix out = keys_of(context, row.layer, row.head_kv);
  for (Eigen::Index i = 0; i < out.rows(); ++i) {
    out.row(i) /= std::max(out.row(i).norm(), std::numeric_limits<float>::min());
  }
  return out;
}

/// Takes out of `sums` what key i adds to the newest of those that are more alike to it than
/// `threshold`.
void spare_newest(const KeyMatrix& directions, Eigen::Index i, const RkvOptions& options,
                  Eigen::ArrayXf& sums) {
  int left = options.recent;
  for (Eigen::Index j = directions.rows() - 1; j >= 0 && left > 0; --j) {
    if (j == i) continue;
    const float cosine = directions.row(i).dot(directions.row(j));
    if (double(cosine) <= options.threshold) continue;
    sums[j] -= cosine;
    --left;
  }
}

/// Softmax over the entries of the mean cosine to the other keys. The cosines of a key to all
/// others sum to its product with the sum of all directions less its own, so that the table of n x
/// n is never formed: only pairs that may be spared are looked at one by one.
Eigen::ArrayXf redundancy(const KeyMatrix& directions, const RkvOptions& options) {
  const Eigen::VectorXf sum = directions.colwise().sum().transpose();
  Eigen::ArrayXf out = (directions * sum).array() - directions.rowwise().squaredNorm().array();
  for (Eigen::Index i = 0; i < directions.rows(); ++i) {
    spare_newest(directions, i, options, out);
  }
  out /= float(directions.rows());
  out = (out - out.maxCoeff()).exp();
  return out / out.sum();
}

/// Adds to `sums` the most that a query head of the group pays to each entry, over the positions.
void add_importance(const AttentionProbs& tile, int group, std::span<float> sums) {
  for (int i = 0; i < tile.entries; ++i) {
    const auto alpha = tile.alpha.begin() + ptrdiff_t(i) * tile.rows;
    for (int row = 0; row < tile.rows; row += group) {
      sums[size_t(i)] += *std::max_element(alpha + row, alpha + row + group);
    }
  }
}

class RkvScorer : public AttentionScorer {
 public:
  RkvScorer(const Reading& reading, const RkvOptions& options)
      : AttentionScorer("rkv", reading), options_(options) {
    if (options.kernel % 2 == 0) {
      throw Error(ErrorCode::usage, "rkv: kernel=" + std::to_string(options.kernel) +
                                        " is not allowed (it must be odd)");
    }
  }

 private:
  size_t row_bytes(const PolicyContext& context, int layer, int head_kv) const override {
    return std::max(attention_tile_bytes(context, reading(), layer, head_kv),
                    keys_bytes(context, layer, head_kv)) +
           4 * sizeof(float) * size_t(context.cache.length(layer, head_kv));
  }

  void score_row(const PolicyContext& context, const ScoredRow& row) const override {
    std::vector<float> importance(row.scores.size(), 0.0F);
    size_t positions = 0;
    each_attention_tile(context, reading(), row.layer, row.head_kv,
                        [&](const AttentionProbs& tile) {
                          add_importance(tile, context.cache.shape().group(), importance);
                          positions += tile.positions.size();
                        });
    pool(importance, options_.kernel, Pooling::max, true, row.scores);
    const Eigen::ArrayXf redundant = redundancy(directions_of(context, row), options_);
    Eigen::Map<Eigen::ArrayXf> scores(row.scores.data(), redundant.size());
    const auto lambda = float(options_.lambda);
    scores = lambda / float(positions) * scores - (1 - lambda) * redundant;
  }

  RkvOptions options_;
};

std::vector<Knob> rkv_knobs() {
  return attention_knobs(
      Source::tail, 8,
      {{.name = "lambda",
        .value = "0.1",
        .min = 0,
        .max = 1,
        .choices = {},
        .help = "weight of the attention; the rest is the redundancy's"},
       {.name = "kernel",
        .value = "7",
        .min = 1,
        .max = 63,
        .integer = true,
        .choices = {},
        .help = "neighbouring entries that the attention is pooled over, odd"},
       {.name = "threshold",
        .value = "0.5",
        .min = -1,
        .max = 1,
        .choices = {},
        .help = "cosine above which two keys are alike"},
       {.name = "recent",
        .value = "1",
        .min = 0,
        .max = 1024,
        .integer = true,
        .choices = {},
        .help = "newest of the entries alike that a key does not count against"}});
}

}  // namespace

ScoreRow rkv_row() {
  return {
      .name = "rkv",
      .summary = "entries that the last queries attend to and whose keys are not like the others'",
      .paper =
          "Cai et al., R-KV: Redundancy-aware KV Cache Compression for Reasoning Models, "
          "arXiv 2505.24133",
      .formula =
          "lambda I - (1 - lambda) R; I = maximum over `kernel` entries of the mean over the "
          "queries of `source` of the group's most attention; R = softmax over the entries of "
          "the mean cosine to the head's other keys, a key not counting against the `recent` "
          "newest of those more alike than `threshold`",
      .differences =
          "run where pith compresses instead of at every 128th generated token; the last "
          "queries' own entries take their part of the attention and the pooling, which the "
          "authors' code leaves out; that code takes the maximum over the group before the "
          "softmax, and where no key is alike spares the first one",
      .budget = "uniform",
      .knobs = rkv_knobs(),
      .make = [](const KnobValues& knobs) -> std::unique_ptr<Scorer> {
        return std::make_unique<RkvScorer>(reading_of(knobs),
                                           RkvOptions{.lambda = knobs.number("lambda"),
                                                      .kernel = knobs.integer("kernel"),
                                                      .threshold = knobs.number("threshold"),
                                                      .recent = knobs.integer("recent")});
      }};
}

}  // namespace pith
