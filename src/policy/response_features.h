#pragma once

#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "measure/features.h"
#include "policy/attention_probs.h"

namespace pith {

using Features = measure::RowMatrix<float>;

/// What response profiles are read from.
inline constexpr Reading kTailQueries{.source = Source::tail, .count = 32, .outputs = true};
inline constexpr Reading kFutureQueries{.source = Source::future, .outputs = true};
inline constexpr Reading kRepeatQueries{.source = Source::repeat, .outputs = true};

/// Calls `visit` with the responses of a row's entries to the queries of all `readings`, some
/// queries at a time, and with tau and scale as measure::add_features() takes them; every reading
/// counts the same, whatever its number of queries.
void each_response(
    const PolicyContext& context, std::span<const Reading> readings, int layer, int head_kv,
    const std::function<void(const measure::Responses<float>&, float tau, float scale)>& visit);

/// Response profiles of a row's entries to the queries of all `readings`, sketched into `buckets`
/// [length, buckets * (head_dim + 1)]; every reading counts the same, whatever its number of
/// queries. The same for any number of threads. `memory` is used for the result.
Features response_features(const PolicyContext& context, std::span<const Reading> readings,
                           int layer, int head_kv, int buckets, Features memory = {});

/// Memory of features that rows use one after another: fresh pages cost as much as a tenth of the
/// work that is done in them. Thread-safe.
class FeaturePool {
 public:
  Features take();
  void give(Features&& features);

 private:
  std::mutex mutex_;
  std::vector<Features> free_;
};

/// Working memory of that, its result counted.
size_t response_feature_bytes(const PolicyContext& context, std::span<const Reading> readings,
                              int layer, int head_kv, int buckets);

}  // namespace pith
