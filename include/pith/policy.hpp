#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pith/error.hpp"

/// What a compression policy sees and what it answers. A policy is a pure function
/// (Observation, CacheView, WeightsView) -> Plan; only the cache applies a plan.
namespace pith {

struct Calibration;

/// Sizes of a model, by GGUF's names. Query head h reads KV head h / group().
struct ModelShape {
  int n_layer = 0;
  int n_head = 0;
  int n_head_kv = 0;
  int head_dim = 0;
  int n_embd = 0;
  int n_vocab = 0;

  int group() const { return n_head / n_head_kv; }
  /// Number of (layer, KV head) pairs; index of a pair is layer * n_head_kv + head_kv.
  int n_rows() const { return n_layer * n_head_kv; }
  int row(int layer, int head_kv) const { return layer * n_head_kv + head_kv; }
};

/// What a policy reads of the forward pass. Where a source was not asked for, it is not there.
struct Needs {
  int tail = 0;         ///< queries, states and logits of so many last positions
  bool prompt = false;  ///< queries of every position of the prompt
  /// Queries of some positions, evenly from an eighth of the prompt on: their number does not grow.
  bool future = false;
  /// Queries of a second pass, in which the model is told to repeat the prompt.
  bool repeat = false;
  int lookahead = 0;         ///< queries of so many greedy tokens after the prompt; takes a tail
  bool calibration = false;  ///< what was measured of the model; used where there is one

  /// What serves both.
  Needs operator|(const Needs& other) const;
};

/// What a policy reads, from its spec: to be handed to Session::prefill. Throws Error(usage) for a
/// spec that is none.
Needs needs_of(std::string_view spec);

/// What the forward pass showed at m scoring positions.
struct Observation {
  std::vector<int32_t> positions;         ///< [m], ascending
  std::vector<std::vector<float>> query;  ///< per layer [m, n_head, head_dim], after RoPE, unscaled
  std::vector<float> residual;  ///< [m, n_embd], the state before the final norm, or empty
  std::vector<float> logits;    ///< [m, n_vocab], or empty
  /// Keys and values of the observed positions where these are not in the cache, per layer
  /// [n_head_kv, m, head_dim]; a query sees those at its own position and before. Else empty.
  std::vector<std::vector<float>> own_keys = {}, own_values = {};

  /// The last `count` positions only (all of them where there are fewer), without own entries.
  Observation tail(int count) const;
};

/// Read-only view of a cache. Entries of a (layer, KV head) are numbered from 0 in position order.
class CacheView {
 public:
  virtual ~CacheView() = default;
  virtual const ModelShape& shape() const = 0;
  virtual int length(int layer, int head_kv) const = 0;
  /// [length], ascending.
  virtual std::span<const int32_t> positions(int layer, int head_kv) const = 0;
  /// [length], or empty where all are zero.
  virtual std::span<const float> log_weights(int layer, int head_kv) const = 0;
  /// Keys of entries first .. first + out.size() / head_dim - 1 into out [count, head_dim], as
  /// attention will read them (after RoPE, after any quantisation).
  virtual void keys(int layer, int head_kv, int first, std::span<float> out) const = 0;
  virtual void values(int layer, int head_kv, int first, std::span<float> out) const = 0;
  /// Position the next token will take: tokens seen, never entries kept.
  virtual int32_t next_position() const = 0;
};

/// How a layer turns queries and keys by position p: pair j of numbers by the angle p *
/// frequency[j], and all turned numbers are multiplied by `magnitude`. Numbers after the pairs stay
/// as they are.
struct Rotation {
  std::vector<float> frequency;  ///< [pairs], radians a position
  float magnitude = 1;
  bool neighbours = true;  ///< pairs are (2j, 2j + 1); else (j, j + pairs)
};

/// A norm over the n_embd numbers of a state: gain * x / sqrt(mean(x^2) + eps).
struct Norm {
  std::span<const float> gain = {};  ///< [n_embd]; empty: there is no norm
  float eps = 0;
  bool centred = false;  ///< of x less its mean (LayerNorm; its bias is of no concern here)
};

/// How a product with the unembedding becomes a logit: softcap * tanh(scale * product / softcap).
struct LogitShape {
  float scale = 1;
  float softcap = 0;  ///< 0: the scaled product as it is
};

/// The few weights that policies ask for, dequantised to float on demand.
class WeightsView {
 public:
  virtual ~WeightsView() = default;
  virtual const ModelShape& shape() const = 0;
  /// Factor on q.k before the softmax.
  virtual float attention_scale() const = 0;
  virtual Rotation rotation(int layer) const = 0;
  /// W_O of a layer into out [n_embd, n_head * head_dim], row-major.
  virtual void output_projection(int layer, std::span<float> out) const = 0;
  virtual Norm final_norm() const = 0;
  /// Of a layer's attention output (after W_O) before it is added to the residual stream.
  virtual Norm post_attention_norm(int /*layer*/) const { return {}; }
  virtual LogitShape logit_shape() const { return {}; }
  /// Rows of the unembedding W_U for `tokens` into out [tokens.size(), n_embd].
  virtual void unembedding(std::span<const int32_t> tokens, std::span<float> out) const = 0;
};

/// Entries never evicted, the same for every policy in a comparison: the first `sinks` and the last
/// `window` of each (layer, KV head), and those before position `prompt`. They count as kept.
struct Protection {
  int sinks = 0;
  int window = 0;
  int32_t prompt = 0;
};

/// What a policy may look at and must respect.
struct PolicyContext {
  const CacheView& cache;
  const Observation& seen;  ///< the tail
  const WeightsView& weights;
  Protection protection;
  int64_t keep_total = 0;  ///< entries to keep over the whole cache, protected ones counted
  int threads = 1;
  const Observation* prompt = nullptr;       ///< queries of the whole prompt
  const Observation* future = nullptr;       ///< queries at those positions and maybe at others
  std::span<const Observation> repeat = {};  ///< the repeat pass, in parts
  const Observation* lookahead = nullptr;  ///< greedy tokens after the prompt, from the full cache
  size_t scratch_bytes = size_t{1} << 30;  ///< bound on the working memory of scoring
  const Calibration* calibration = nullptr;  ///< of this model; null where there is none
  /// Called with the share done (0..1); returning false stops with ErrorCode::interrupted.
  std::function<bool(double)> progress;
};

/// Worth of each entry: the higher, the longer it is kept. Protected entries' values are ignored.
struct Scores {
  std::vector<std::vector<float>> rows;  ///< [n_layer * n_head_kv][length]
  std::vector<std::string> notes;        ///< what was adjusted, for the receipt
  size_t scratch_peak = 0;               ///< bytes of working memory used at once
};

/// Entries of one (layer, KV head) to keep.
struct RowPlan {
  std::vector<int32_t> keep;      ///< entry numbers, ascending
  std::vector<float> log_weight;  ///< added to the entry's log-weight; empty means zeros
  /// [keep.size(), head_dim] what the kept entries' values become; empty means as they were
  std::vector<float> values = {};
};

/// For each (layer, KV head) what stays. Pure data.
struct Plan {
  std::vector<RowPlan> rows;  ///< [n_layer * n_head_kv]
  std::vector<std::string> notes;
  size_t scratch_peak = 0;

  int64_t total() const;
};

/// A requested size of the compressed cache: `10%`, `512` (mean entries a layer and KV head) or
/// `64MiB` (also KiB, GiB). Kept exactly as asked; turned into entries with integer arithmetic.
class Budget {
 public:
  enum class Unit { share, entries, bytes };

  /// Throws Error(usage) for anything else, zero, negative, or a share over 100 %.
  static Budget parse(std::string_view text);

  /// Entries over the whole cache, never more than `full_entries`. `rows` is the number of
  /// (layer, KV head) pairs and `entry_bytes` the bytes that one entry takes.
  int64_t total_entries(int64_t full_entries, int rows, size_t entry_bytes) const;
  const std::string& text() const { return text_; }
  Unit unit() const { return unit_; }

 private:
  Budget() = default;
  std::string text_;
  Unit unit_ = Unit::share;
  int64_t amount_ = 0;  // millionths of a percent, entries, or bytes
};

/// Protection that fits `keep_total` entries over `rows` rows: window = min(32, kept / 3) and
/// sinks = min(4, kept / 8) of the mean kept entries a row, at least 1 each; where a single entry a
/// row is kept, it is the window's. A value >= 0 in `asked` replaces the default, and the other
/// default shrinks to what is left. Throws Error(budget), saying what would do, where it does not
/// fit.
Protection fit_protection(int64_t keep_total, int rows, Protection asked = {-1, -1});

}  // namespace pith
