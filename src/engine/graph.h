#pragma once

#include <ggml-cpp.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cache/kv_cache.h"
#include "engine/linear_ops.h"
#include "model/weights.h"

namespace pith {

/// How a graph stores the new keys and values of a layer and attends to what the cache holds.
class AttentionOps {
 public:
  virtual ~AttentionOps() = default;

  /// What, beyond the number of tokens, a graph depends on; it is rebuilt when this changes.
  virtual std::vector<int64_t> signature(const KvCache& cache, int n_tokens) const = 0;

  /// Most tokens one graph may take over this cache.
  virtual int max_tokens(const KvCache& cache, int n_ubatch) const = 0;

  /// Called once before the layers of a new graph are built.
  virtual void begin(ggml_context* ctx, KvCache& cache, int n_tokens) = 0;

  /// Stores k, v [head_dim, n_head_kv, n_tokens] and, where `attend`, returns the attention of
  /// q [head_dim, n_head, n_tokens], all F32 and contiguous after RoPE, as [head_dim * n_head,
  /// n_tokens]; null otherwise.
  virtual ggml_tensor* build(ggml_context* ctx, ggml_cgraph* graph, int layer, ggml_tensor* q,
                             ggml_tensor* k, ggml_tensor* v, bool attend) = 0;

  /// Whether one graph may hold tokens of several caches.
  virtual bool takes_several() const { return false; }

  /// Called before each run, with the graph's memory in place: fills inputs for n_tokens tokens of
  /// the one cache, or for a token of each of n_tokens caches, at their next_position().
  virtual void bind(std::span<KvCache* const> caches, int n_tokens) = 0;

  /// Seconds spent attending since the start, as the first thread saw it; 0 where not known.
  virtual double seconds() const { return 0; }
};

std::unique_ptr<AttentionOps> make_ragged_ops(const ModelConfig& config, int threads);
/// With `flash`, flash attention; else matrix products around a softmax.
std::unique_ptr<AttentionOps> make_portable_ops(const ModelConfig& config, bool flash);

/// What a graph was built for.
struct GraphKey {
  int n_tokens = 0;
  int n_out = 0;         ///< rows whose final state and logits are computed
  int n_observe = 0;     ///< rows whose queries are kept
  int shift_layer = -1;  ///< layer whose attention is added to; -1: none
  std::vector<int64_t> attention;

  bool operator==(const GraphKey&) const = default;
};

/// One pass of the model as a ggml graph with its memory. Inputs are tensors, so that it runs again
/// for other tokens and lengths.
struct Graph {
  GraphKey key;
  ggml_context_ptr ctx;
  ggml_gallocr_ptr memory;
  ggml_cgraph* nodes = nullptr;
  ggml_tensor* tokens = nullptr;        // I32 [n_tokens]
  ggml_tensor* positions = nullptr;     // I32 [n_tokens]
  ggml_tensor* out_rows = nullptr;      // I32 [n_out], null where 0
  ggml_tensor* observe_rows = nullptr;  // I32 [n_observe], null where 0
  ggml_tensor* shift = nullptr;         // [head_dim * n_head, n_tokens], null where none
  ggml_tensor* residual = nullptr;      // [n_embd, n_out], before the final norm
  ggml_tensor* logits = nullptr;        // [n_vocab, n_out]
  std::vector<ggml_tensor*> query;      // per layer [head_dim * n_head, n_observe], after RoPE
};

/// Builds and allocates. Throws Error(memory) where the activations cannot be had.
Graph build_graph(const ModelWeights& weights, const GraphKey& key, LinearOps& products,
                  AttentionOps& ops, KvCache& cache);

}  // namespace pith
