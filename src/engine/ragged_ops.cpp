#include <algorithm>
#include <array>
#include <vector>

#include "base/timer.h"
#include "engine/attention.h"
#include "engine/graph.h"

namespace pith {
namespace {

/// Number of entries at positions <= p; positions ascend.
int entries_up_to(std::span<const int32_t> positions, int32_t p) {
  return int(std::upper_bound(positions.begin(), positions.end(), p) - positions.begin());
}

/// Attention by pith's own kernel, as two custom nodes a layer: `store` writes the new entries
/// after each row's own length, `attend` reads the ragged rows. What they need of the cache is
/// looked up when they run, so one graph serves every length, and tokens of several caches as well
/// as of one. What several caches have in common is read from the first of them, once for all.
class RaggedOps final : public AttentionOps {
 public:
  RaggedOps(const ModelConfig& config, int threads)
      : config_(config), threads_(threads), layers_(size_t(config.shape.n_layer)) {
    for (size_t il = 0; il < layers_.size(); ++il) {
      layers_[il].ops = this;
      layers_[il].index = int(il);
      layers_[il].heads.resize(size_t(config.shape.n_head_kv));
    }
  }

  std::vector<int64_t> signature(const KvCache&, int) const override { return {}; }
  int max_tokens(const KvCache&, int n_ubatch) const override { return n_ubatch; }
  bool takes_several() const override { return true; }
  void begin(ggml_context*, KvCache&, int) override {}

  ggml_tensor* build(ggml_context* ctx, ggml_cgraph* graph, int layer, ggml_tensor* q,
                     ggml_tensor* k, ggml_tensor* v, bool attend) override {
    Layer* userdata = &layers_[size_t(layer)];
    std::array<ggml_tensor*, 2> stored = {k, v};
    ggml_tensor* store = ggml_custom_4d(ctx, GGML_TYPE_F32, 1, 1, 1, 1, stored.data(), 2,
                                        store_entries, GGML_N_TASKS_MAX, userdata);
    ggml_build_forward_expand(graph, store);
    if (!attend) return nullptr;
    std::array<ggml_tensor*, 2> read = {q, store};  // store: attention waits for the entries
    return ggml_custom_4d(ctx, GGML_TYPE_F32, q->ne[0] * q->ne[1], q->ne[2], 1, 1, read.data(), 2,
                          attend_entries, GGML_N_TASKS_MAX, userdata);
  }

  double seconds() const override { return seconds_; }

  void bind(std::span<KvCache* const> caches, int n_tokens) override {
    caches_.assign(caches.begin(), caches.end());
    const KvCache& cache = *caches.front();
    common_ = cache.next_position();
    for (const KvCache* other : caches) common_ = std::min(common_, cache.same_before(*other));
    shape_ = {.n_tokens = n_tokens,
              .n_head = config_.shape.n_head,
              .n_head_kv = config_.shape.n_head_kv,
              .head_dim = config_.shape.head_dim,
              .k_type = cache.geometry().k_type,
              .v_type = cache.geometry().v_type,
              .stride = cache.geometry().entry_bytes(),
              .value_offset = cache.geometry().key_bytes(),
              .scale = config_.attention_scale};
    // Preparing every layer here takes the memory that the nodes will need: none is asked for, and
    // nothing can throw, on ggml's threads.
    for (Layer& layer : layers_) {
      if (several()) {
        bind_common(layer);
      } else {
        bind_tokens(layer);
      }
      attention_.prepare(shape_, layer.heads, threads_, layer.own);
    }
  }

 private:
  struct Layer {
    RaggedOps* ops = nullptr;
    int index = 0;
    std::vector<HeadEntries> heads;  // what all tokens read
    std::vector<HeadEntries> own;    // [n_head_kv, n_tokens], empty where tokens are of one cache
    std::vector<int> visible;        // [n_head_kv, n_tokens] of heads
    std::vector<int> own_visible;    // [n_head_kv, n_tokens]
  };

  bool several() const { return caches_.size() > 1; }
  KvCache& cache_of(int token) const { return *caches_[several() ? size_t(token) : 0]; }

  /// Entries of a row from `first` on, of which token t sees visible[t].
  HeadEntries entries_from(KvCache& cache, int layer, int head_kv, int first,
                           const int* visible) const {
    const auto weights = cache.log_weights(layer, head_kv);
    const int n_weights = std::max(0, int(weights.size()) - first);
    return {.data = cache.entries(layer, head_kv) + size_t(first) * shape_.stride,
            .log_weights = n_weights > 0 ? weights.data() + first : nullptr,
            .n_weights = n_weights,
            .visible = visible};
  }

  /// All tokens are of one cache: each sees what lies up to its position.
  void bind_tokens(Layer& layer) {
    KvCache& cache = *caches_.front();
    layer.own.clear();
    layer.visible.resize(layer.heads.size() * size_t(shape_.n_tokens));
    int* visible = layer.visible.data();
    for (size_t h = 0; h < layer.heads.size(); ++h, visible += shape_.n_tokens) {
      const auto positions = cache.positions(layer.index, int(h));
      for (int t = 0; t < shape_.n_tokens; ++t) {
        const int before = entries_up_to(positions, cache.next_position() + t);
        visible[t] = before + t + 1;  // the step's own tokens follow the stored ones
      }
      layer.heads[h] = entries_from(cache, layer.index, int(h), 0, visible);
    }
  }

  /// Each token is of a cache of its own: it sees all that the caches have in common, then the rest
  /// of its own.
  void bind_common(Layer& layer) {
    const size_t n = size_t(shape_.n_tokens);
    layer.own.resize(layer.heads.size() * n);
    layer.visible.resize(layer.own.size());
    layer.own_visible.resize(layer.own.size());
    for (size_t h = 0; h < layer.heads.size(); ++h) {
      KvCache& first = *caches_.front();
      const int common = entries_up_to(first.positions(layer.index, int(h)), common_ - 1);
      int* visible = &layer.visible[h * n];
      int* own_visible = &layer.own_visible[h * n];
      std::fill_n(visible, n, common);
      layer.heads[h] = entries_from(first, layer.index, int(h), 0, visible);
      for (size_t t = 0; t < n; ++t) {
        own_visible[t] = caches_[t]->length(layer.index, int(h)) - common + 1;
        layer.own[h * n + t] = entries_from(*caches_[t], layer.index, int(h), common, own_visible);
      }
    }
  }

  static void store_entries(ggml_tensor* dst, int ith, int nth, void* userdata) {
    const auto& layer = *static_cast<Layer*>(userdata);
    const RaggedOps& ops = *layer.ops;
    const ModelShape& shape = ops.config_.shape;
    const auto* k = static_cast<const float*>(dst->src[0]->data);
    const auto* v = static_cast<const float*>(dst->src[1]->data);
    for (int t = ith; t < ops.shape_.n_tokens; t += nth) {
      KvCache& cache = ops.cache_of(t);
      for (int h = 0; h < shape.n_head_kv; ++h) {
        const size_t at =
            (size_t(t) * size_t(shape.n_head_kv) + size_t(h)) * size_t(shape.head_dim);
        const int index = cache.length(layer.index, h) + (ops.several() ? 0 : t);
        cache.write_entry(layer.index, h, index, k + at, v + at);
      }
    }
    if (ith == 0) {
      layer.ops->attention_.prepare(ops.shape_, layer.heads, ops.threads_, layer.own);
    }
  }

  static void attend_entries(ggml_tensor* dst, int ith, int, void* userdata) {
    auto& layer = *static_cast<Layer*>(userdata);
    const Timer timer;
    layer.ops->attention_.run(static_cast<const float*>(dst->src[0]->data),
                              static_cast<float*>(dst->data), ith);
    if (ith == 0) layer.ops->seconds_ += timer.seconds();
  }

  const ModelConfig& config_;
  int threads_;
  std::vector<Layer> layers_;
  RaggedAttention attention_;  // of the layer that is running
  AttentionShape shape_;
  std::vector<KvCache*> caches_;  // one, or as many as tokens
  int32_t common_ = 0;            // position before which all caches hold the same entries
  double seconds_ = 0;
};

}  // namespace

std::unique_ptr<AttentionOps> make_ragged_ops(const ModelConfig& config, int threads) {
  return std::make_unique<RaggedOps>(config, threads);
}

}  // namespace pith
