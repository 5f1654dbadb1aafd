#include <algorithm>

#include "policy/attention_probs.h"
#include "policy/policies/policies.h"
#include "policy/score_rows.h"
#include "policy/smoothing.h"

namespace pith {

namespace {

/// Mean over the positions of one query head's attention to each entry.
std::vector<float> mean_attention(const AttentionProbs& probs, int group, int head) {
  std::vector<float> mean(size_t(probs.entries), 0.0F);
  const float count = float(probs.rows) / float(group);
  for (int i = 0; i < probs.entries; ++i) {
    for (int row = head; row < probs.rows; row += group) mean[size_t(i)] += probs.at(i, row);
    mean[size_t(i)] /= count;
  }
  return mean;
}

class SnapKvScorer : public Scorer {
 public:
  SnapKvScorer(int window, int kernel, Pooling pooling)
      : window_(window), kernel_(kernel), pooling_(pooling) {
    if (kernel % 2 == 0) {
      throw Error(ErrorCode::usage,
                  "snapkv: kernel=" + std::to_string(kernel) + " is not allowed (it must be odd)");
    }
  }

  Needs needs() const override { return {.tail = window_}; }

  Scores score(const PolicyContext& context) const override {
    if (context.seen.positions.empty()) {
      throw Error(ErrorCode::usage, "snapkv needs observed positions: observe part of the prompt");
    }
    const auto bytes = [&](int layer, int head_kv) {
      const auto n = size_t(context.cache.length(layer, head_kv));
      return attention_probs_bytes(context, layer, head_kv, window_) + 2 * n * sizeof(float);
    };
    Scores scores =
        score_each_row(context, bytes, [&](const ScoredRow& row) { score_row(context, row); });
    const int observed = observed_count(context, window_);
    if (observed < window_) {
      scores.notes.push_back("snapkv: window " + std::to_string(window_) + " shrank to the " +
                             std::to_string(observed) + " observed positions");
    }
    return scores;
  }

 private:
  void score_row(const PolicyContext& context, const ScoredRow& row) const {
    const int group = context.cache.shape().group();
    const auto probs = attention_probs(context, row.layer, row.head_kv, window_);
    const size_t before = entries_before_window(context, row);
    std::vector<float> pooled(row.scores.size());
    std::fill(row.scores.begin(), row.scores.end(), 0.0F);
    for (int head = 0; head < group; ++head) {
      const auto mean = mean_attention(probs, group, head);
      const std::span<const float> in(mean);
      const std::span<float> out(pooled);
      pool(in.first(before), kernel_, pooling_, true, out.first(before));
      pool(in.subspan(before), kernel_, pooling_, true, out.subspan(before));
      for (size_t i = 0; i < pooled.size(); ++i) row.scores[i] += pooled[i] / float(group);
    }
  }

  /// Pooling stops here, so that the window's own attention does not leak into its neighbours.
  size_t entries_before_window(const PolicyContext& context, const ScoredRow& row) const {
    const auto& seen = context.seen.positions;
    const int32_t start = seen[seen.size() - size_t(observed_count(context, window_))];
    const auto positions = context.cache.positions(row.layer, row.head_kv);
    return size_t(std::lower_bound(positions.begin(), positions.end(), start) - positions.begin());
  }

  int window_;
  int kernel_;
  Pooling pooling_;
};

Knob odd_kernel() {
  return {.name = "kernel",
          .value = "5",
          .min = 1,
          .max = 63,
          .integer = true,
          .choices = {},
          .help = "neighbouring entries pooled, odd; 1 pools nothing"};
}

Knob observation_window() {
  return {.name = "window",
          .value = "32",
          .min = 1,
          .max = 64,
          .integer = true,
          .choices = {},
          .help = "last positions whose attention counts"};
}

}  // namespace

ScoreRow snapkv_row() {
  return {.name = "snapkv",
          .summary = "entries that the end of the prompt attends to, with their neighbours",
          .paper =
              "Li et al., SnapKV: LLM Knows What You are Looking for Before Generation, "
              "arXiv 2404.14469",
          .formula =
              "mean over the group's heads of pool_kernel(mean over the last `window` "
              "queries of attention)",
          .differences =
              "averages over the query heads of a KV head, which the paper stores apart; "
              "where the protected window is shorter than the observed one, the entries "
              "between are scored instead of kept",
          .budget = "uniform",
          .phases = "prefill",
          .knobs = {observation_window(),
                    odd_kernel(),
                    {.name = "pooling",
                     .value = "avg",
                     .choices = {"avg", "max"},
                     .help = "average or maximum over the kernel"}},
          .make = [](const KnobValues& knobs) -> std::unique_ptr<Scorer> {
            const Pooling pooling = knobs.choice("pooling") == "max" ? Pooling::max : Pooling::avg;
            return std::make_unique<SnapKvScorer>(knobs.integer("window"), knobs.integer("kernel"),
                                                  pooling);
          },
          .attention = true};
}

}  // namespace pith
