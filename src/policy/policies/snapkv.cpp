#include <algorithm>
#include <limits>

#include "policy/attention_scorer.h"
#include "policy/policies/policies.h"
#include "policy/smoothing.h"

namespace pith {

namespace {

class SnapKvScorer : public AttentionScorer {
 public:
  SnapKvScorer(const Reading& reading, int kernel, Pooling pooling)
      : AttentionScorer("snapkv", reading), kernel_(kernel), pooling_(pooling) {
    if (kernel % 2 == 0) {
      throw Error(ErrorCode::usage,
                  "snapkv: kernel=" + std::to_string(kernel) + " is not allowed (it must be odd)");
    }
  }

 private:
  size_t row_bytes(const PolicyContext& context, int layer, int head_kv) const override {
    const auto sums = size_t(context.cache.shape().group()) + 1;
    return attention_tile_bytes(context, reading(), layer, head_kv) +
           sums * size_t(context.cache.length(layer, head_kv)) * sizeof(float);
  }

  void score_row(const PolicyContext& context, const ScoredRow& row) const override {
    const int group = context.cache.shape().group();
    const size_t n = row.scores.size();
    std::vector<float> sums(size_t(group) * n), pooled(n);
    int32_t first = std::numeric_limits<int32_t>::max();
    size_t positions = 0;
    each_attention_tile(context, reading(), row.layer, row.head_kv,
                        [&](const AttentionProbs& tile) {
                          add(tile, group, sums);
                          first = std::min(first, tile.positions.front());
                          positions += tile.positions.size();
                        });
    const auto entries = context.cache.positions(row.layer, row.head_kv);
    const auto before = size_t(std::ranges::lower_bound(entries, first) - entries.begin());
    for (int head = 0; head < group; ++head) {
      const auto mean = std::span(sums).subspan(size_t(head) * n, n);
      for (float& x : mean) x /= float(positions);
      pool_around(mean, before, pooled);
      for (size_t i = 0; i < n; ++i) row.scores[i] += pooled[i] / float(group);
    }
  }

  /// Sums over the positions of each query head's attention to each entry [group, entries].
  static void add(const AttentionProbs& tile, int group, std::span<float> sums) {
    const size_t n = sums.size() / size_t(group);
    for (int i = 0; i < tile.entries; ++i) {
      for (int row = 0; row < tile.rows; ++row) {
        sums[size_t(row % group) * n + size_t(i)] += tile.at(i, row);
      }
    }
  }

  /// Pooling stops at the first of the queries' own positions, so that what a window pays to itself
  /// does not leak out of it.
  void pool_around(std::span<const float> in, size_t before, std::span<float> out) const {
    pool(in.first(before), kernel_, pooling_, true, out.first(before));
    pool(in.subspan(before), kernel_, pooling_, true, out.subspan(before));
  }

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

}  // namespace

ScoreRow snapkv_row() {
  return {.name = "snapkv",
          .summary = "entries that the end of the prompt attends to, with their neighbours",
          .paper =
              "Li et al., SnapKV: LLM Knows What You are Looking for Before Generation, "
              "arXiv 2404.14469",
          .formula =
              "mean over the group's heads of pool_kernel(mean over the queries of `source` of "
              "attention)",
          .differences =
              "averages over the query heads of a KV head, which the paper stores apart; "
              "where the protected window is shorter than the observed one, the entries "
              "between are scored instead of kept",
          .budget = "uniform",
          .knobs = attention_knobs(Source::tail, 32,
                                   {odd_kernel(),
                                    {.name = "pooling",
                                     .value = "avg",
                                     .choices = {"avg", "max"},
                                     .help = "average or maximum over the kernel"}}),
          .make = [](const KnobValues& knobs) -> std::unique_ptr<Scorer> {
            const Pooling pooling = knobs.choice("pooling") == "max" ? Pooling::max : Pooling::avg;
            return std::make_unique<SnapKvScorer>(reading_of(knobs), knobs.integer("kernel"),
                                                  pooling);
          },
          .attention = true};
}

}  // namespace pith
