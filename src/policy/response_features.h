#pragma once

#include <functional>
#include <span>
#include <vector>

#include "measure/byte_rows.h"
#include "measure/features.h"
#include "policy/attention_probs.h"
#include "policy/protection.h"

namespace pith {

using Features = measure::RowMatrix<float>;

/// What response profiles are read from.
inline constexpr Reading kTailQueries{.source = Source::tail, .count = 32, .outputs = true};
inline constexpr Reading kFutureQueries{.source = Source::future, .outputs = true};
inline constexpr Reading kRepeatQueries{.source = Source::repeat, .outputs = true};

/// Calls `visit` with the responses of a row's entries to the queries of all `readings`, some
/// hundred queries at a time in a few parts, and with tau as measure::FeatureMaker takes it; every
/// reading counts the same, whatever its number of queries.
void each_response(
    const PolicyContext& context, std::span<const Reading> readings, int layer, int head_kv,
    const std::function<void(std::span<const measure::Responses<float>>, float tau)>& visit);

/// Response profiles of a row's entries to the queries of all `readings`, sketched into `buckets`
/// [length, buckets * (head_dim + 1)]; every reading counts the same, whatever its number of
/// queries. The same for any number of threads.
Features response_features(const PolicyContext& context, std::span<const Reading> readings,
                           int layer, int head_kv, int buckets);

/// Profiles of some of a row's entries as bytes.
struct RoundedResponses {
  std::vector<int> entries;             ///< whose they are, ascending
  measure::ByteRows profiles = {0, 0};  ///< [entries.size(), ..]
  /// What all eligible entries answer together [width], these as their bytes say.
  measure::ByteRows::Row target = {};
};

/// Eligible entries to make profiles of, ascending, from about the squared size of each entry's
/// profile [length].
using ChooseEntries = std::function<std::vector<int>(std::span<const float> sizes)>;

/// The same of the entries that `choose` names; where the queries are few, no others are made.
RoundedResponses rounded_responses(const PolicyContext& context, std::span<const Reading> readings,
                                   int layer, int head_kv, int buckets, const Eligible& eligible,
                                   const ChooseEntries& choose);

/// Working memory of each_response.
size_t response_batch_bytes(const PolicyContext& context, std::span<const Reading> readings,
                            int layer, int head_kv);
/// Working memory of the two, their results counted.
size_t response_feature_bytes(const PolicyContext& context, std::span<const Reading> readings,
                              int layer, int head_kv, int buckets);
size_t rounded_response_bytes(const PolicyContext& context, std::span<const Reading> readings,
                              int layer, int head_kv, int buckets);

}  // namespace pith
