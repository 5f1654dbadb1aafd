#include "policy/response_features.h"

#include <algorithm>
#include <cmath>
#include <list>
#include <utility>
#include <vector>

#include "policy/keys.h"

namespace pith {

namespace {

/// tau as a part of the values' size: how much lost mass counts beside a moved output.
constexpr float kTau = 0.3F;

/// Tiles whose responses are visited together.
constexpr int kTiles = 4;

/// Responses with the attention that they point to.
class Batch {
 public:
  bool full() const { return int(parts_.size()) == kTiles; }
  bool empty() const { return parts_.empty(); }
  std::span<const measure::Responses<float>> parts() const { return parts_; }

  void add(AttentionProbs&& tile, std::span<const float> values, int head_dim, float scale) {
    const AttentionProbs& held = tiles_.emplace_back(std::move(tile));
    parts_.push_back({.entries = held.entries,
                      .queries = held.rows,
                      .head_dim = head_dim,
                      .alpha = held.alpha,
                      .values = values,
                      .others = held.own_output,
                      .scale = scale,
                      .seed = seed_++});
  }

  void clear() {
    parts_.clear();
    tiles_.clear();
  }

 private:
  std::list<AttentionProbs> tiles_;
  std::vector<measure::Responses<float>> parts_;
  uint32_t seed_ = 0;
};

/// Whether all responses are visited at once.
bool is_one_batch(const PolicyContext& context, std::span<const Reading> readings) {
  int tiles = 0;
  for (const Reading& reading : readings) tiles += attention_tiles(context, reading);
  return tiles <= kTiles;
}

/// Rows of bytes, some at a time while they are in the processor's caches.
measure::ByteRows made_as_bytes(const measure::FeatureMaker<float>& maker, int length) {
  constexpr int kStep = measure::FeatureMaker<float>::kTogether;
  measure::ByteRows out(length, maker.width());
  Features some = Features::Zero(kStep, out.width());
  for (int i = 0; i < maker.entries(); i += kStep) {
    const int count = std::min(kStep, maker.entries() - i);
    maker.make(i, count, some.data(), some.cols());
    for (int k = 0; k < count; ++k) out.set(i + k, some.row(k).data());
  }
  return out;
}

}  // namespace

void each_response(
    const PolicyContext& context, std::span<const Reading> readings, int layer, int head_kv,
    const std::function<void(std::span<const measure::Responses<float>>, float tau)>& visit) {
  const ModelShape& shape = context.cache.shape();
  const KeyMatrix values = values_of(context, layer, head_kv);
  const std::span<const float> all(values.data(), size_t(values.size()));
  const float tau = measure::tau_of<float>(all, shape.head_dim, kTau);
  Batch batch;
  const auto visit_batch = [&] {
    if (!batch.empty()) visit(batch.parts(), tau);
    batch.clear();
  };
  for (const Reading& reading : readings) {
    const auto queries =
        double(reading.positions(context, "the response of a head")) * shape.group();
    const auto scale = float(1 / std::sqrt(queries));
    each_attention_tile(context, reading, layer, head_kv, [&](AttentionProbs&& tile) {
      batch.add(std::move(tile), all, shape.head_dim, scale);
      if (batch.full()) visit_batch();
    });
  }
  visit_batch();
}

Features response_features(const PolicyContext& context, std::span<const Reading> readings,
                           int layer, int head_kv, int buckets) {
  const int width = context.cache.shape().head_dim + 1;
  Features out =
      Features::Zero(context.cache.length(layer, head_kv), Eigen::Index{buckets} * width);
  each_response(context, readings, layer, head_kv,
                [&](auto parts, float tau) { measure::add_features<float>(parts, tau, out); });
  return out;
}

measure::ByteRows rounded_responses(const PolicyContext& context, std::span<const Reading> readings,
                                    int layer, int head_kv, int buckets) {
  if (!is_one_batch(context, readings)) {
    return measure::ByteRows(response_features(context, readings, layer, head_kv, buckets));
  }
  const int length = context.cache.length(layer, head_kv);
  measure::ByteRows out(length, Eigen::Index{buckets} * (context.cache.shape().head_dim + 1));
  each_response(context, readings, layer, head_kv, [&](auto parts, float tau) {
    out = made_as_bytes(measure::FeatureMaker<float>(parts, tau, buckets), length);
  });
  return out;
}

size_t response_batch_bytes(const PolicyContext& context, std::span<const Reading> readings,
                            int layer, int head_kv) {
  const auto d = size_t(context.cache.shape().head_dim);
  size_t tile = 0;
  for (const Reading& reading : readings) {
    tile = std::max(tile, attention_tile_bytes(context, reading, layer, head_kv));
  }
  return size_t{kTiles + 1} * tile +
         sizeof(float) * d * size_t(context.cache.length(layer, head_kv));
}

size_t response_feature_bytes(const PolicyContext& context, std::span<const Reading> readings,
                              int layer, int head_kv, int buckets) {
  const auto width = size_t(buckets) * size_t(context.cache.shape().head_dim + 1);
  return response_batch_bytes(context, readings, layer, head_kv) +
         sizeof(float) * width * size_t(context.cache.length(layer, head_kv));
}

size_t rounded_response_bytes(const PolicyContext& context, std::span<const Reading> readings,
                              int layer, int head_kv, int buckets) {
  const auto width = Eigen::Index{buckets} * (context.cache.shape().head_dim + 1);
  const size_t rows = measure::ByteRows::bytes(context.cache.length(layer, head_kv), width);
  return rows + (is_one_batch(context, readings)
                     ? response_batch_bytes(context, readings, layer, head_kv)
                     : response_feature_bytes(context, readings, layer, head_kv, buckets));
}

}  // namespace pith
