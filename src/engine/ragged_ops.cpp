#include <algorithm>
#include <array>

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
/// looked up when they run, so one graph serves every length.
class RaggedOps final : public AttentionOps {
 public:
  RaggedOps(const ModelConfig& config, int threads)
      : config_(config), threads_(threads), layers_(size_t(config.shape.n_layer)) {
    for (size_t il = 0; il < layers_.size(); ++il) {
      layers_[il].ops = this;
      layers_[il].index = int(il);
      layers_[il].heads.resize(size_t(config.shape.n_head_kv));
      layers_[il].visible.resize(size_t(config.shape.n_head_kv));
    }
  }

  std::vector<int64_t> signature(const KvCache&, int) const override { return {}; }
  int max_tokens(const KvCache&, int n_ubatch) const override { return n_ubatch; }
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

  void bind(KvCache& cache, int n_tokens) override {
    cache_ = &cache;
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
    for (Layer& layer : layers_) bind_layer(layer, n_tokens);
  }

 private:
  struct Layer {
    RaggedOps* ops = nullptr;
    int index = 0;
    std::vector<HeadEntries> heads;
    std::vector<std::vector<int>> visible;  // per KV head [n_tokens]
  };

  void bind_layer(Layer& layer, int n_tokens) {
    for (size_t h = 0; h < layer.heads.size(); ++h) {
      const auto positions = cache_->positions(layer.index, int(h));
      const auto weights = cache_->log_weights(layer.index, int(h));
      std::vector<int>& visible = layer.visible[h];
      visible.resize(size_t(n_tokens));
      for (int t = 0; t < n_tokens; ++t) {
        const int before = entries_up_to(positions, cache_->next_position() + t);
        visible[size_t(t)] = before + t + 1;  // the step's own tokens follow the stored ones
      }
      layer.heads[h] = {.data = cache_->entries(layer.index, int(h)),
                        .log_weights = weights.empty() ? nullptr : weights.data(),
                        .n_weights = int(weights.size()),
                        .visible = visible.data()};
    }
    attention_.prepare(shape_, layer.heads, threads_);
  }

  static void store_entries(ggml_tensor* dst, int ith, int nth, void* userdata) {
    const auto& layer = *static_cast<Layer*>(userdata);
    const RaggedOps& ops = *layer.ops;
    const ModelShape& shape = ops.config_.shape;
    const auto* k = static_cast<const float*>(dst->src[0]->data);
    const auto* v = static_cast<const float*>(dst->src[1]->data);
    for (int t = ith; t < ops.shape_.n_tokens; t += nth) {
      for (int h = 0; h < shape.n_head_kv; ++h) {
        const size_t at =
            (size_t(t) * size_t(shape.n_head_kv) + size_t(h)) * size_t(shape.head_dim);
        const int index = ops.cache_->length(layer.index, h) + t;
        ops.cache_->write_entry(layer.index, h, index, k + at, v + at);
      }
    }
    if (ith == 0) layer.ops->attention_.prepare(ops.shape_, layer.heads, ops.threads_);
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
  KvCache* cache_ = nullptr;
  double seconds_ = 0;
};

}  // namespace

std::unique_ptr<AttentionOps> make_ragged_ops(const ModelConfig& config, int threads) {
  return std::make_unique<RaggedOps>(config, threads);
}

}  // namespace pith
