#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pith/calibration.hpp"
#include "pith/policy.hpp"

namespace pith::test {

/// A cache in memory. Rows are filled by make_synthetic() or by hand.
class SyntheticCache : public CacheView {
 public:
  struct Row {
    std::vector<int32_t> positions;  ///< [length], ascending
    std::vector<float> log_weights;  ///< [length] or empty
    std::vector<float> keys;         ///< [length, head_dim]
    std::vector<float> values;       ///< [length, head_dim]
  };

  ModelShape model_shape;
  std::vector<Row> rows;  ///< [n_layer * n_head_kv]
  int32_t seen = 0;       ///< tokens seen, the next position

  const ModelShape& shape() const override { return model_shape; }
  int length(int layer, int head_kv) const override;
  std::span<const int32_t> positions(int layer, int head_kv) const override;
  std::span<const float> log_weights(int layer, int head_kv) const override;
  void keys(int layer, int head_kv, int first, std::span<float> out) const override;
  void values(int layer, int head_kv, int first, std::span<float> out) const override;
  int32_t next_position() const override { return seen; }

  int64_t total_entries() const;

 private:
  const Row& row(int layer, int head_kv) const;
};

/// Weights in memory.
class SyntheticWeights : public WeightsView {
 public:
  ModelShape model_shape;
  std::vector<std::vector<float>> w_o;  ///< per layer [n_embd, n_head * head_dim]
  std::vector<float> norm;              ///< [n_embd], of the final RMSNorm
  std::vector<float> w_u;               ///< [n_vocab, n_embd]
  Rotation turn;                        ///< the same for all layers
  float scale = 1;
  float eps = 1e-5F;
  bool centred = false;          ///< of both norms
  std::vector<float> post_norm;  ///< [n_embd] after attention, or empty
  LogitShape logits;

  const ModelShape& shape() const override { return model_shape; }
  float attention_scale() const override { return scale; }
  Rotation rotation(int) const override { return turn; }
  void output_projection(int layer, std::span<float> out) const override;
  Norm final_norm() const override { return {.gain = norm, .eps = eps, .centred = centred}; }
  Norm post_attention_norm(int /*layer*/) const override {
    return {.gain = post_norm, .eps = eps, .centred = centred};
  }
  LogitShape logit_shape() const override { return logits; }
  void unembedding(std::span<const int32_t> tokens, std::span<float> out) const override;
};

/// What make_synthetic() builds.
struct SyntheticOptions {
  ModelShape shape;
  std::vector<int> lengths;  ///< entries a row: one for all rows, or [n_rows] for a ragged cache
  int observed = 40;         ///< scoring positions, fewer where fewer tokens were seen
  float peak = 6;            ///< logit of the entry that a query looks for; the others' spread is 1
  bool log_weights = false;  ///< uniform in [-2, 2]
  uint32_t seed = 1;
};

/// A cache, weights and an observation that belong together. The longest row holds every position
/// seen; a shorter one a random part of them with the newest. Every observed query looks for a
/// random earlier entry of its KV head, so that attention is peaked; logits are those of the
/// residual state.
struct Synthetic {
  SyntheticCache cache;
  SyntheticWeights weights;
  Observation seen;
  Observation prompt;               ///< queries of every position
  std::vector<Observation> repeat;  ///< two parts of a repeat pass
  Observation lookahead;            ///< twelve tokens
  /// Of no file; where it holds nothing, the context has none.
  Calibration calibration;

  /// The context of compressing to `keep_total` entries with the default protection.
  PolicyContext context(int64_t keep_total, int threads = 1) const;
};

Synthetic make_synthetic(const SyntheticOptions& options);

/// Random shares at 50, 20 and 5 % and random sensitivities.
Calibration random_calibration(const ModelShape& shape, uint32_t seed = 1);

/// A small shape: `n_head_kv` KV heads of `group` query heads each, head_dim 16.
ModelShape small_shape(int n_layer = 2, int n_head_kv = 2, int group = 3);

}  // namespace pith::test
