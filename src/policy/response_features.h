#pragma once

#include <span>

#include "measure/features.h"
#include "policy/attention_probs.h"

namespace pith {

using Features = measure::RowMatrix<float>;

/// Response profiles of a row's entries to the queries of all `readings`, sketched into `buckets`
/// [length, buckets * (head_dim + 1)]; every reading counts the same, whatever its number of
/// queries. The same for any number of threads.
Features response_features(const PolicyContext& context, std::span<const Reading> readings,
                           int layer, int head_kv, int buckets);

/// Working memory of that, its result counted.
size_t response_feature_bytes(const PolicyContext& context, std::span<const Reading> readings,
                              int layer, int head_kv, int buckets);

}  // namespace pith
