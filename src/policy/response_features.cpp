#include "policy/response_features.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "policy/keys.h"

namespace pith {

namespace {

/// tau as a part of the values' size: how much lost mass counts beside a moved output.
constexpr float kTau = 0.3F;

}  // namespace

void each_response(
    const PolicyContext& context, std::span<const Reading> readings, int layer, int head_kv,
    const std::function<void(const measure::Responses<float>&, float tau, float scale)>& visit) {
  const ModelShape& shape = context.cache.shape();
  const KeyMatrix values = values_of(context, layer, head_kv);
  const std::span<const float> all(values.data(), size_t(values.size()));
  const float tau = measure::tau_of<float>(all, shape.head_dim, kTau);
  for (const Reading& reading : readings) {
    const auto queries =
        double(reading.positions(context, "the response of a head")) * shape.group();
    const auto scale = float(1 / std::sqrt(queries));
    each_attention_tile(context, reading, layer, head_kv, [&](const AttentionProbs& tile) {
      visit({.entries = tile.entries,
             .queries = tile.rows,
             .head_dim = shape.head_dim,
             .alpha = tile.alpha,
             .values = all,
             .others = tile.own_output},
            tau, scale);
    });
  }
}

Features response_features(const PolicyContext& context, std::span<const Reading> readings,
                           int layer, int head_kv, int buckets, Features memory) {
  Features out = std::move(memory);
  const int width = context.cache.shape().head_dim + 1;
  out.resize(context.cache.length(layer, head_kv), Eigen::Index{buckets} * width);
  uint32_t seed = 0;
  each_response(context, readings, layer, head_kv,
                [&](const measure::Responses<float>& responses, float tau, float scale) {
                  measure::add_features<float>(responses, tau, scale, seed, out, seed == 0);
                  ++seed;
                });
  if (seed == 0) out.setZero();
  return out;
}

Features FeaturePool::take() {
  const std::scoped_lock lock(mutex_);
  if (free_.empty()) return {};
  Features out = std::move(free_.back());
  free_.pop_back();
  return out;
}

void FeaturePool::give(Features&& features) {
  const std::scoped_lock lock(mutex_);
  free_.push_back(std::move(features));
}

size_t response_feature_bytes(const PolicyContext& context, std::span<const Reading> readings,
                              int layer, int head_kv, int buckets) {
  const auto d = size_t(context.cache.shape().head_dim);
  const auto entries = size_t(context.cache.length(layer, head_kv));
  size_t tile = 0;
  for (const Reading& reading : readings) {
    tile = std::max(tile, attention_tile_bytes(context, reading, layer, head_kv));
  }
  // Of a tile its probabilities, some of them again, and a block of the result; values; the result.
  return 2 * tile + sizeof(float) * entries * (2 * d + size_t(buckets) * (d + 1));
}

}  // namespace pith
