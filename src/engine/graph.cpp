#include "engine/graph.h"

#include <string>

#include "pith/error.hpp"

namespace pith {
namespace {

// Nodes a layer needs at most, the attention path's own included.
constexpr size_t kNodesPerLayer = 48;

/// Builds the layers of one graph from a model's tensors.
class Builder {
 public:
  Builder(const ModelWeights& weights, LinearOps& products, AttentionOps& ops, Graph& graph)
      : config_(weights.config()),
        weights_(weights),
        products_(products),
        ops_(ops),
        graph_(graph),
        ctx_(graph.ctx.get()) {}

  void build(KvCache& cache) {
    inputs();
    products_.begin();
    ops_.begin(ctx_, cache, graph_.key.n_tokens);
    ggml_tensor* x = ggml_get_rows(ctx_, weights_.token_embedding(), graph_.tokens);
    for (int il = 0; il < config_.shape.n_layer; ++il) {
      x = layer(x, il);
      if (x == nullptr) return;
    }
    head(x);
  }

 private:
  ggml_tensor* input(int n) {
    if (n == 0) return nullptr;
    ggml_tensor* t = ggml_new_tensor_1d(ctx_, GGML_TYPE_I32, n);
    ggml_set_input(t);
    return t;
  }

  void inputs() {
    graph_.tokens = input(graph_.key.n_tokens);
    graph_.positions = input(graph_.key.n_tokens);
    graph_.out_rows = input(graph_.key.n_out);
    graph_.observe_rows = input(graph_.key.n_observe);
  }

  ggml_tensor* norm(ggml_tensor* x, ggml_tensor* weight) {
    return ggml_mul(ctx_, ggml_rms_norm(ctx_, x, config_.rms_eps), weight);
  }

  ggml_tensor* linear(ggml_tensor* w, ggml_tensor* bias, ggml_tensor* x) {
    ggml_tensor* y = products_.build(ctx_, w, x);
    return bias != nullptr ? ggml_add(ctx_, y, bias) : y;
  }

  /// [n_heads * head_dim, n_tokens] as heads.
  ggml_tensor* heads(ggml_tensor* x, int n_heads) {
    return ggml_reshape_3d(ctx_, x, config_.shape.head_dim, n_heads, graph_.key.n_tokens);
  }

  ggml_tensor* rope(ggml_tensor* x, const LayerWeights& w) {
    const RopeConfig& r = config_.rope;
    return ggml_rope_ext(ctx_, x, graph_.positions, w.rope_freqs, r.n_dims, r.type, r.n_ctx_orig,
                         r.freq_base, r.freq_scale, r.ext_factor, r.attn_factor, r.beta_fast,
                         r.beta_slow);
  }

  /// Queries of the observed rows, kept until the graph has run.
  void observe(ggml_tensor* q) {
    const int64_t width = q->ne[0] * q->ne[1];
    ggml_tensor* rows = ggml_get_rows(ctx_, ggml_reshape_2d(ctx_, q, width, graph_.key.n_tokens),
                                      graph_.observe_rows);
    ggml_set_output(rows);
    ggml_build_forward_expand(graph_.nodes, rows);
    graph_.query.push_back(rows);
  }

  ggml_tensor* shifted(ggml_tensor* attention) {
    graph_.shift = ggml_new_tensor_2d(ctx_, GGML_TYPE_F32, attention->ne[0], attention->ne[1]);
    ggml_set_input(graph_.shift);
    return ggml_add(ctx_, attention, graph_.shift);
  }

  /// Output of layer il, only the wanted rows for the last one; null where nothing more is needed
  /// than the last layer's entries.
  ggml_tensor* layer(ggml_tensor* x, int il) {
    const LayerWeights& w = weights_.layer(il);
    const bool last = il + 1 == config_.shape.n_layer;
    const bool wanted = !last || graph_.key.n_out > 0;
    ggml_tensor* h = norm(x, w.attn_norm);
    ggml_tensor* q = rope(heads(linear(w.wq, w.bq, h), config_.shape.n_head), w);
    ggml_tensor* k = rope(heads(linear(w.wk, w.bk, h), config_.shape.n_head_kv), w);
    ggml_tensor* v = heads(linear(w.wv, w.bv, h), config_.shape.n_head_kv);
    if (graph_.key.n_observe > 0) observe(q);
    ggml_tensor* a = ops_.build(ctx_, graph_.nodes, il, q, k, v, wanted);
    if (!wanted) return nullptr;
    if (il == graph_.key.shift_layer) a = shifted(a);
    if (last) {
      a = ggml_get_rows(ctx_, a, graph_.out_rows);
      x = ggml_get_rows(ctx_, x, graph_.out_rows);
    }
    x = ggml_add(ctx_, linear(w.wo, w.bo, a), x);
    return ggml_add(ctx_, feed_forward(norm(x, w.ffn_norm), w), x);
  }

  ggml_tensor* feed_forward(ggml_tensor* x, const LayerWeights& w) {
    ggml_tensor* gate = products_.build(ctx_, w.gate, x);
    ggml_tensor* up = products_.build(ctx_, w.up, x);
    return products_.build(ctx_, w.down, ggml_swiglu_split(ctx_, gate, up));
  }

  void head(ggml_tensor* x) {
    graph_.residual = x;
    graph_.logits = products_.build(ctx_, weights_.output(), norm(x, weights_.output_norm()));
    ggml_set_output(graph_.residual);
    ggml_set_output(graph_.logits);
    ggml_build_forward_expand(graph_.nodes, graph_.logits);
  }

  const ModelConfig& config_;
  const ModelWeights& weights_;
  LinearOps& products_;
  AttentionOps& ops_;
  Graph& graph_;
  ggml_context* ctx_;
};

}  // namespace

Graph build_graph(const ModelWeights& weights, const GraphKey& key, LinearOps& products,
                  AttentionOps& ops, KvCache& cache) {
  Graph graph;
  graph.key = key;
  const size_t nodes = size_t(weights.config().shape.n_layer) * kNodesPerLayer + kNodesPerLayer;
  const size_t bytes =
      nodes * 2 * ggml_tensor_overhead() + ggml_graph_overhead_custom(nodes, false);
  graph.ctx.reset(ggml_init({.mem_size = bytes, .mem_buffer = nullptr, .no_alloc = true}));
  if (!graph.ctx) throw Error(ErrorCode::memory, "no memory for the model's graph");
  graph.nodes = ggml_new_graph_custom(graph.ctx.get(), nodes, false);
  Builder(weights, products, ops, graph).build(cache);
  graph.memory.reset(ggml_gallocr_new(ggml_backend_cpu_buffer_type()));
  if (!graph.memory || !ggml_gallocr_alloc_graph(graph.memory.get(), graph.nodes)) {
    throw Error(ErrorCode::memory, "no memory for the activations of " +
                                       std::to_string(key.n_tokens) +
                                       " tokens; a smaller ubatch (-ub) takes less");
  }
  return graph;
}

}  // namespace pith
