#include <algorithm>
#include <cmath>

#include "cache/hadamard.h"
#include "cache/kv_type.h"
#include "engine/graph.h"

namespace pith {
namespace {

// ggml's GPU kernels want the number of entries padded so; a graph is reused within a step of it.
constexpr int kPad = 256;
// Bound on the masks of one graph where every layer needs its own.
constexpr size_t kMaskBytes = size_t{64} << 20;

int padded(int n) { return (n + kPad - 1) / kPad * kPad; }

/// True where all rows hold the same positions without weights: one mask then serves all.
bool is_plain(const KvCache& cache) {
  const CacheGeometry& g = cache.geometry();
  for (int il = 0; il < g.n_layer; ++il) {
    for (int h = 0; h < g.n_head_kv; ++h) {
      if (cache.length(il, h) != cache.next_position() || !cache.log_weights(il, h).empty()) {
        return false;
      }
    }
  }
  return true;
}

/// Attention by nodes that every ggml backend has: rows are stored with set_rows, and KV heads lie
/// on dimension 3, so that each has a mask of its own that carries validity and log-weights. Either
/// flash attention (mask in F16: 3-4e-4 relative), or products around a softmax.
class PortableOps final : public AttentionOps {
 public:
  PortableOps(const ModelConfig& config, bool flash)
      : config_(config), mask_type_(flash ? GGML_TYPE_F16 : GGML_TYPE_F32) {}

  std::vector<int64_t> signature(const KvCache& cache, int n_tokens) const override {
    std::vector<int64_t> key = {int64_t(reinterpret_cast<intptr_t>(cache.entries(0, 0))),
                                is_plain(cache)};
    for (int il = 0; il < cache.geometry().n_layer; ++il) {
      key.push_back(padded(cache.longest(il) + n_tokens));
    }
    return key;
  }

  int max_tokens(const KvCache& cache, int n_ubatch) const override {
    if (is_plain(cache)) return n_ubatch;
    size_t per_token = 1;
    for (int il = 0; il < cache.geometry().n_layer; ++il) {
      per_token += size_t(padded(cache.longest(il) + n_ubatch)) *
                   size_t(cache.geometry().n_head_kv) * ggml_type_size(mask_type_);
    }
    return int(std::clamp<size_t>(kMaskBytes / per_token, 1, size_t(n_ubatch)));
  }

  void begin(ggml_context* ctx, KvCache& cache, int n_tokens) override {
    cache_ = &cache;
    const CacheGeometry& g = cache.geometry();
    rotation_ = nullptr;
    if (keeps_keys_rotated(g.k_type)) {
      rotation_ = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, g.head_dim, g.head_dim);
      ggml_set_input(rotation_);
    }
    const size_t layer_bytes = size_t(g.n_head_kv) * cache.head_stride();
    memory_.reset(
        ggml_backend_cpu_buffer_from_ptr(cache.entries(0, 0), size_t(g.n_layer) * layer_bytes));
    layers_.assign(size_t(g.n_layer), {});
    const bool plain = is_plain(cache);
    for (int il = 0; il < g.n_layer; ++il) {
      Layer& layer = layers_[size_t(il)];
      layer.n_entries = padded(cache.longest(il) + n_tokens);
      layer.keys = storage(ctx, il, g.k_type, 0);
      layer.values = storage(ctx, il, g.v_type, g.key_bytes());
      layer.rows = ggml_new_tensor_2d(ctx, GGML_TYPE_I64, n_tokens, g.n_head_kv);
      ggml_set_input(layer.rows);
      layer.mask = plain && il > 0 ? layers_[0].mask
                                   : ggml_new_tensor_4d(ctx, mask_type_, layer.n_entries, n_tokens,
                                                        1, plain ? 1 : g.n_head_kv);
      ggml_set_input(layer.mask);
    }
  }

  ggml_tensor* build(ggml_context* ctx, ggml_cgraph* graph, int il, ggml_tensor* q, ggml_tensor* k,
                     ggml_tensor* v, bool attend) override {
    Layer& layer = layers_[size_t(il)];
    if (rotation_ != nullptr) {
      k = ggml_mul_mat(ctx, rotation_, k);
      q = ggml_mul_mat(ctx, rotation_, q);
    }
    ggml_tensor* keys = store(ctx, graph, layer.keys, k, layer.rows);
    ggml_tensor* values = store(ctx, graph, layer.values, v, layer.rows);
    if (!attend) return nullptr;
    const int64_t dim = q->ne[0], n_head = q->ne[1], n_tokens = q->ne[2];
    const int64_t group = config_.shape.group(), n_head_kv = config_.shape.n_head_kv;
    ggml_tensor* queries = ggml_view_4d(ctx, q, dim, n_tokens, group, n_head_kv, q->nb[2], q->nb[1],
                                        q->nb[1] * size_t(group), 0);
    keys = entries(ctx, keys, layer);
    values = entries(ctx, values, layer);
    ggml_tensor* out = mask_type_ == GGML_TYPE_F16
                           ? flash(ctx, queries, keys, values, layer.mask)
                           : products(ctx, queries, keys, values, layer.mask);
    return ggml_reshape_2d(ctx, ggml_cont(ctx, out), dim * n_head, n_tokens);
  }

  void bind(std::span<KvCache* const> caches, int n_tokens) override {
    const KvCache& cache = *caches.front();
    if (rotation_ != nullptr) bind_rotation();
    for (size_t il = 0; il < layers_.size(); ++il) {
      bind_rows(cache, int(il), n_tokens);
      if (il == 0 || layers_[il].mask != layers_[0].mask) bind_mask(cache, int(il), n_tokens);
    }
  }

 private:
  struct Layer {
    int n_entries = 0;                               // padded
    ggml_tensor *keys = nullptr, *values = nullptr;  // [head_dim, capacity, n_head_kv], strided
    ggml_tensor* rows = nullptr;                     // I64 [n_tokens, n_head_kv]
    ggml_tensor* mask = nullptr;                     // [n_entries, n_tokens, 1, n_head_kv or 1]
  };

  // Both: queries [head_dim, n_tokens, group, n_head_kv], keys and values [head_dim, n_entries, 1,
  // n_head_kv] -> a view [head_dim, group, n_head_kv, n_tokens].

  ggml_tensor* flash(ggml_context* ctx, ggml_tensor* queries, ggml_tensor* keys,
                     ggml_tensor* values, ggml_tensor* mask) const {
    ggml_tensor* out =
        ggml_flash_attn_ext(ctx, queries, keys, values, mask, config_.attention_scale, 0, 0);
    return ggml_permute(ctx, out, 0, 1, 3, 2);
  }

  ggml_tensor* products(ggml_context* ctx, ggml_tensor* queries, ggml_tensor* keys,
                        ggml_tensor* values, ggml_tensor* mask) const {
    ggml_tensor* weights =
        ggml_soft_max_ext(ctx, ggml_mul_mat(ctx, keys, queries), mask, config_.attention_scale, 0);
    // Numbers in blocks cannot change places.
    if (ggml_is_quantized(values->type)) values = ggml_cast(ctx, values, GGML_TYPE_F32);
    ggml_tensor* by_entry = ggml_cont(ctx, ggml_transpose(ctx, values));
    return ggml_permute(ctx, ggml_mul_mat(ctx, by_entry, weights), 0, 3, 1, 2);
  }

  /// The keys (values) of a layer where the cache holds them.
  ggml_tensor* storage(ggml_context* ctx, int il, KvType type, size_t offset) {
    const CacheGeometry& g = cache_->geometry();
    const auto capacity = int64_t(cache_->head_stride() / g.entry_bytes());
    ggml_tensor* t = ggml_new_tensor_3d(ctx, to_ggml(type), g.head_dim, capacity, g.n_head_kv);
    t->nb[1] = g.entry_bytes();
    t->nb[2] = cache_->head_stride();
    t->nb[3] = cache_->head_stride() * size_t(g.n_head_kv);
    if (ggml_backend_tensor_alloc(memory_.get(), t, cache_->entries(il, 0) + offset) !=
        GGML_STATUS_SUCCESS) {
      throw Error(ErrorCode::internal, "the cache could not be shown to ggml");
    }
    return t;
  }

  static ggml_tensor* store(ggml_context* ctx, ggml_cgraph* graph, ggml_tensor* storage,
                            ggml_tensor* fresh, ggml_tensor* rows) {
    ggml_tensor* stored = ggml_set_rows(ctx, storage, ggml_permute(ctx, fresh, 0, 2, 1, 3), rows);
    ggml_build_forward_expand(graph, stored);
    return stored;
  }

  static ggml_tensor* entries(ggml_context* ctx, ggml_tensor* stored, const Layer& layer) {
    return ggml_view_4d(ctx, stored, stored->ne[0], layer.n_entries, 1, stored->ne[2],
                        stored->nb[1], stored->nb[2], stored->nb[2], 0);
  }

  void bind_rotation() const {
    const auto n = size_t(rotation_->ne[0]);
    std::vector<float> rows(n * n, 0.0F);
    for (size_t i = 0; i < n; ++i) {
      rows[i * n + i] = 1;
      hadamard(&rows[i * n], int(n));
    }
    ggml_backend_tensor_set(rotation_, rows.data(), 0, rows.size() * sizeof(rows[0]));
  }

  void bind_rows(const KvCache& cache, int il, int n_tokens) {
    const int n_head_kv = cache.geometry().n_head_kv;
    std::vector<int64_t> rows;
    rows.reserve(size_t(n_tokens) * size_t(n_head_kv));
    for (int h = 0; h < n_head_kv; ++h) {
      for (int t = 0; t < n_tokens; ++t) rows.push_back(cache.length(il, h) + t);
    }
    ggml_backend_tensor_set(layers_[size_t(il)].rows, rows.data(), 0,
                            rows.size() * sizeof(rows[0]));
  }

  void bind_mask(const KvCache& cache, int il, int n_tokens) {
    const Layer& layer = layers_[size_t(il)];
    const auto n = size_t(layer.n_entries);
    std::vector<float> mask(n * size_t(n_tokens) * size_t(layer.mask->ne[3]), -INFINITY);
    auto row = mask.begin();
    for (int h = 0; h < layer.mask->ne[3]; ++h) {
      const auto positions = cache.positions(il, h);
      const auto weights = cache.log_weights(il, h);
      for (int t = 0; t < n_tokens; ++t, row += int64_t(n)) {
        const auto stored =
            std::upper_bound(positions.begin(), positions.end(), cache.next_position() + t);
        std::fill_n(row, stored - positions.begin() + t + 1, 0.0F);
        std::copy(weights.begin(), weights.end(), row);
      }
    }
    set_mask(layer.mask, mask);
  }

  static void set_mask(ggml_tensor* to, std::span<const float> mask) {
    if (to->type == GGML_TYPE_F32)
      return ggml_backend_tensor_set(to, mask.data(), 0, mask.size_bytes());
    std::vector<ggml_fp16_t> half(mask.size());
    ggml_fp32_to_fp16_row(mask.data(), half.data(), int64_t(mask.size()));
    ggml_backend_tensor_set(to, half.data(), 0, half.size() * sizeof(half[0]));
  }

  const ModelConfig& config_;
  ggml_type mask_type_;
  KvCache* cache_ = nullptr;
  ggml_backend_buffer_ptr memory_;
  std::vector<Layer> layers_;
  ggml_tensor* rotation_ = nullptr;  // [head_dim, head_dim], where keys are kept rotated
};

}  // namespace

std::unique_ptr<AttentionOps> make_portable_ops(const ModelConfig& config, bool flash) {
  return std::make_unique<PortableOps>(config, flash);
}

}  // namespace pith
