#include "policy/response_features.h"

#include <algorithm>
#include <cmath>
#include <list>
#include <numeric>
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

using Profile = Eigen::Map<const measure::ByteRows::Row>;

/// Calls visit(place in `entries`, profile) for each; a profile has `width` numbers, zeros behind
/// its own.
template <typename Visit>
void each_profile(const measure::FeatureMaker<float>& maker, std::span<const int> entries,
                  Eigen::Index width, const Visit& visit) {
  constexpr size_t kStep = measure::FeatureMaker<float>::kTogether;
  Features some = Features::Zero(kStep, width);
  for (size_t i = 0; i < entries.size(); i += kStep) {
    const auto step = entries.subspan(i, std::min(kStep, entries.size() - i));
    maker.make(step, some.data(), width);
    for (size_t k = 0; k < step.size(); ++k)
      visit(i + k, Profile(some.data() + Eigen::Index(k) * width, width));
  }
}

/// Entries of a row that are not eligible.
std::vector<int> protected_of(const Eligible& eligible, int length) {
  std::vector<int> out(size_t(length - eligible.count()));
  const auto behind = out.begin() + eligible.first;
  std::iota(out.begin(), behind, 0);
  std::iota(behind, out.end(), eligible.last);
  return out;
}

/// Rounds `profile` of the entry at `place`. In the target it counts as what it is rounded to: what
/// rounding takes from an entry that stays is not for others to make up for.
void round_profile(size_t place, const Profile& profile, RoundedResponses& out) {
  out.profiles.set(Eigen::Index(place), profile.data());
  out.target -= profile;
  out.profiles.add(int(place), 1, out.target);
}

/// Of queries that are all at hand: rows are rounded while they are in the processor's caches.
void round_some(const measure::FeatureMaker<float>& maker, const Eligible& eligible, int length,
                const ChooseEntries& choose, RoundedResponses& out) {
  auto [total, sizes] = maker.summary();
  sizes.resize(size_t(length));
  out.entries = choose(sizes);
  out.profiles = measure::ByteRows(Eigen::Index(out.entries.size()), maker.width());
  const Eigen::Index width = out.profiles.width();
  out.target = measure::ByteRows::Row::Zero(width);
  out.target.head(total.size()) = total;
  const std::vector<int> others = protected_of(eligible, length);
  each_profile(maker, others, width,
               [&](size_t, const Profile& profile) { out.target -= profile; });
  each_profile(maker, out.entries, width,
               [&](size_t place, const Profile& profile) { round_profile(place, profile, out); });
}

/// Of profiles that had to be made of all entries.
void round_some(const Features& profiles, const Eligible& eligible, const ChooseEntries& choose,
                RoundedResponses& out) {
  const Eigen::VectorXf sizes = profiles.rowwise().squaredNorm();
  out.entries = choose({sizes.data(), size_t(sizes.size())});
  out.profiles = measure::ByteRows(Eigen::Index(out.entries.size()), profiles.cols());
  out.target = measure::ByteRows::Row::Zero(out.profiles.width());
  out.target.head(profiles.cols()) =
      profiles.middleRows(eligible.first, eligible.count()).colwise().sum();
  measure::ByteRows::Row profile = measure::ByteRows::Row::Zero(out.profiles.width());
  for (size_t k = 0; k < out.entries.size(); ++k) {
    profile.head(profiles.cols()) = profiles.row(out.entries[k]);
    round_profile(k, Profile(profile.data(), profile.size()), out);
  }
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

RoundedResponses rounded_responses(const PolicyContext& context, std::span<const Reading> readings,
                                   int layer, int head_kv, int buckets, const Eligible& eligible,
                                   const ChooseEntries& choose) {
  RoundedResponses out;
  if (!is_one_batch(context, readings)) {
    const Features all = response_features(context, readings, layer, head_kv, buckets);
    round_some(all, eligible, choose, out);
    return out;
  }
  const int length = context.cache.length(layer, head_kv);
  each_response(context, readings, layer, head_kv, [&](auto parts, float tau) {
    round_some(measure::FeatureMaker<float>(parts, tau, buckets), eligible, length, choose, out);
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
