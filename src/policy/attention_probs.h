#pragma once

#include <vector>

#include "pith/policy.hpp"

namespace pith {

/// Softmax attention of observed positions over the entries of one KV head.
struct AttentionProbs {
  int entries = 0;  ///< n
  int rows = 0;     ///< m * group; row t * group + h is query head h of the group at position t
  std::vector<float> alpha;  ///< [n, rows], entry-major

  float at(int entry, int row) const { return alpha[size_t(entry) * size_t(rows) + size_t(row)]; }
};

/// Observed positions that a `count` of the last ones really has: fewer where fewer were seen.
int observed_count(const PolicyContext& context, int count);

/// Working memory of attention_probs, its result counted.
size_t attention_probs_bytes(const PolicyContext& context, int layer, int head_kv, int count);

/// Attention of the last `count` observed positions (fewer where fewer were seen) of a (layer, KV
/// head). A position sees the entries at its own position and before; log-weights count. Recomputed
/// from the observed queries and the cache's keys: one matrix product.
AttentionProbs attention_probs(const PolicyContext& context, int layer, int head_kv, int count);

}  // namespace pith
