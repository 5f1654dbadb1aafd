#include <algorithm>
#include <cmath>

#include "policy/attention_probs.h"
#include "policy/keys.h"
#include "policy/policies/leverage.h"
#include "policy/policies/policies.h"
#include "policy/score_rows.h"
#include "policy/smoothing.h"
#include "policy/value_norms.h"

namespace pith {

namespace {

constexpr Reading kPrompt{.source = Source::prompt};

/// Positions that attend to each other.
constexpr int kChunk = 256;
/// Neighbours that the attention is averaged over.
constexpr int kKernel = 3;

/// Queries of a head at the positions [first, last) of the prompt, one a row.
KeyMatrix queries_of(const PolicyContext& context, int layer, int head, size_t first, size_t last) {
  const ModelShape& shape = context.cache.shape();
  KeyMatrix out(Eigen::Index(last - first), shape.head_dim);
  const auto& all = context.prompt->query.at(size_t(layer));
  for (size_t t = first; t < last; ++t) {
    const size_t at = (t * size_t(shape.n_head) + size_t(head)) * size_t(shape.head_dim);
    out.row(Eigen::Index(t - first)) =
        Eigen::Map<const Eigen::RowVectorXf>(all.data() + at, shape.head_dim);
  }
  return out;
}

/// Adds what the queries pay to each key, all of them seeing all.
void add_attention(const KeyMatrix& queries, const Eigen::Ref<const KeyMatrix>& keys,
                   std::span<float> sums) {
  KeyMatrix logits = queries * keys.transpose();
  for (Eigen::Index t = 0; t < logits.rows(); ++t) {
    auto row = logits.row(t).array();
    row = (row - row.maxCoeff()).exp();
    row /= row.sum();
  }
  // Summed apart from `sums`, which may lie anywhere: see base/aligned.h.
  const Eigen::RowVectorXf paid = logits.colwise().sum();
  Eigen::Map<Eigen::RowVectorXf>(sums.data(), keys.rows()) += paid;
}

class CompactorScorer : public Scorer {
 public:
  Needs needs() const override { return kPrompt.needs(); }

  Scores score(const PolicyContext& context) const override {
    kPrompt.positions(context, "compactor");
    const ModelShape& shape = context.cache.shape();
    const auto bytes = [&](int layer, int head_kv) {
      const auto d = size_t(shape.head_dim);
      return 2 * keys_bytes(context, layer, head_kv) + sizeof(float) * kChunk * (kChunk + 2 * d);
    };
    Scores scores = score_each_row(pass_of(context, 0, 0.5), bytes,
                                   [&](const ScoredRow& row) { score_row(context, row); });
    standardize_layers(scores, shape);
    Scores leverage = key_leverage(pass_of(context, 0.5, 1));
    standardize_layers(leverage, shape);
    blend(context, leverage, scores);
    scores.scratch_peak = std::max(scores.scratch_peak, leverage.scratch_peak);
    return scores;
  }

 private:
  /// Chunks are of positions: entries and queries that lie in them.
  static void score_row(const PolicyContext& context, const ScoredRow& row) {
    const auto entries = context.cache.positions(row.layer, row.head_kv);
    const auto& asking = context.prompt->positions;
    const KeyMatrix keys = keys_of(context, row.layer, row.head_kv);
    const int group = context.cache.shape().group();
    std::ranges::fill(row.scores, 0.0F);
    for (int32_t from = 0; from < context.cache.next_position(); from += kChunk) {
      const auto place = [&](const auto& list, int32_t position) {
        return size_t(std::ranges::lower_bound(list, position) - list.begin());
      };
      const size_t first = place(entries, from), last = place(entries, from + kChunk);
      if (first == last) continue;
      const auto chunk = keys.middleRows(Eigen::Index(first), Eigen::Index(last - first));
      for (int h = 0; h < group; ++h) {
        add_attention(queries_of(context, row.layer, row.head_kv * group + h, place(asking, from),
                                 place(asking, from + kChunk)),
                      chunk, row.scores.subspan(first, last - first));
      }
    }
    const auto norms = value_norms(context, row.layer, row.head_kv);
    std::vector<float> weighted(norms.size());
    for (size_t i = 0; i < norms.size(); ++i) {
      weighted[i] = row.scores[i] / float(group) * norms[i];
    }
    pool(weighted, kKernel, Pooling::avg, true, row.scores);
  }

  /// The more is evicted, the more the leverage counts.
  static void blend(const PolicyContext& context, const Scores& leverage, Scores& scores) {
    int64_t entries = 0;
    for (const auto& row : scores.rows) entries += int64_t(row.size());
    const double kept = double(context.keep_total) / double(std::max<int64_t>(1, entries));
    const auto weight = float(std::max(0.0, 1 - kept));
    for (size_t r = 0; r < scores.rows.size(); ++r) {
      for (size_t i = 0; i < scores.rows[r].size(); ++i) {
        scores.rows[r][i] += weight * leverage.rows[r][i];
      }
    }
  }
};

}  // namespace

ScoreRow compactor_row() {
  return {.name = "compactor",
          .summary = "leverage of the key and attention within a stretch of the prompt, added",
          .paper =
              "Chari and Van Durme, Compactor: Calibrated Query-Agnostic KV Cache Compression "
              "with Approximate Leverage Scores, arXiv 2507.08143",
          .formula =
              "z(a) + (1 - kept share) z(leverage); a = average over 3 entries of ||v|| times "
              "the attention that the 256 positions around pay without a causal mask and "
              "without scale, mean over the group; z over the KV heads of a layer",
          .differences =
              "exact leverage instead of a sketch; sinks and window are those of the "
              "comparison, not 8 and 4; the last stretch is not filled up",
          .budget = "uniform",
          .knobs = {},
          .make = [](const KnobValues&) -> std::unique_ptr<Scorer> {
            return std::make_unique<CompactorScorer>();
          }};
}

}  // namespace pith
