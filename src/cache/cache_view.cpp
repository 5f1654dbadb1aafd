#include "cache/kv_cache.h"

namespace pith {
namespace {

class KvCacheView final : public CacheView {
 public:
  KvCacheView(const KvCache& cache, const ModelShape& shape) : cache_(cache), shape_(shape) {}

  const ModelShape& shape() const override { return shape_; }
  int length(int layer, int head_kv) const override { return cache_.length(layer, head_kv); }
  std::span<const int32_t> positions(int layer, int head_kv) const override {
    return cache_.positions(layer, head_kv);
  }
  std::span<const float> log_weights(int layer, int head_kv) const override {
    return cache_.log_weights(layer, head_kv);
  }
  void keys(int layer, int head_kv, int first, std::span<float> out) const override {
    cache_.read_keys(layer, head_kv, first, out);
  }
  void values(int layer, int head_kv, int first, std::span<float> out) const override {
    cache_.read_values(layer, head_kv, first, out);
  }
  int32_t next_position() const override { return cache_.next_position(); }

 private:
  const KvCache& cache_;
  ModelShape shape_;
};

}  // namespace

std::unique_ptr<CacheView> view_of(const KvCache& cache, const ModelShape& shape) {
  const CacheGeometry& geometry = cache.geometry();
  if (shape.n_layer != geometry.n_layer || shape.n_head_kv != geometry.n_head_kv ||
      shape.head_dim != geometry.head_dim) {
    throw Error(ErrorCode::internal, "the cache is not of the model's shape");
  }
  return std::make_unique<KvCacheView>(cache, shape);
}

}  // namespace pith
