#pragma once

#include <Eigen/Core>

#include "pith/policy.hpp"

namespace pith {

using KeyMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Keys, or values, of a (layer, KV head) [length, head_dim].
inline KeyMatrix keys_of(const PolicyContext& context, int layer, int head_kv) {
  KeyMatrix out(context.cache.length(layer, head_kv), context.cache.shape().head_dim);
  context.cache.keys(layer, head_kv, 0, {out.data(), size_t(out.size())});
  return out;
}

inline KeyMatrix values_of(const PolicyContext& context, int layer, int head_kv) {
  KeyMatrix out(context.cache.length(layer, head_kv), context.cache.shape().head_dim);
  context.cache.values(layer, head_kv, 0, {out.data(), size_t(out.size())});
  return out;
}

/// Bytes of either.
inline size_t keys_bytes(const PolicyContext& context, int layer, int head_kv) {
  return sizeof(float) * size_t(context.cache.length(layer, head_kv)) *
         size_t(context.cache.shape().head_dim);
}

}  // namespace pith
