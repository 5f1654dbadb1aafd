#include "support/synthetic.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace pith::test {

namespace {

using Random = std::mt19937;

std::vector<float> normals(Random& random, size_t count, float deviation = 1) {
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> out(count);
  for (float& x : out) x = normal(random);
  return out;
}

void copy_rows(const std::vector<float>& from, int first, int width, std::span<float> out) {
  const auto begin = from.begin() + ptrdiff_t(first) * width;
  std::copy(begin, begin + ptrdiff_t(out.size()), out.begin());
}

/// `length` of the positions 0 .. seen - 1, the newest among them.
std::vector<int32_t> some_positions(Random& random, int length, int32_t seen) {
  std::vector<int32_t> all(size_t(seen) - 1);
  std::iota(all.begin(), all.end(), 0);
  std::vector<int32_t> out;
  std::sample(all.begin(), all.end(), std::back_inserter(out), length - 1, random);
  out.push_back(seen - 1);
  return out;
}

SyntheticCache make_cache(Random& random, const SyntheticOptions& options) {
  const ModelShape& shape = options.shape;
  SyntheticCache cache;
  cache.model_shape = shape;
  cache.seen = *std::max_element(options.lengths.begin(), options.lengths.end());
  for (int r = 0; r < shape.n_rows(); ++r) {
    const int length = options.lengths[options.lengths.size() == 1 ? 0 : size_t(r)];
    const size_t numbers = size_t(length) * size_t(shape.head_dim);
    SyntheticCache::Row row;
    row.positions = some_positions(random, length, cache.seen);
    row.keys = normals(random, numbers);
    row.values = normals(random, numbers);
    if (options.log_weights) {
      std::uniform_real_distribution<float> weight(-2, 2);
      row.log_weights.resize(size_t(length));
      for (float& w : row.log_weights) w = weight(random);
    }
    cache.rows.push_back(std::move(row));
  }
  return cache;
}

SyntheticWeights make_weights(Random& random, const ModelShape& shape) {
  const size_t width = size_t(shape.n_head) * size_t(shape.head_dim);
  const auto unit = [](size_t n) { return 1 / std::sqrt(float(n)); };
  SyntheticWeights weights;
  weights.model_shape = shape;
  weights.scale = unit(size_t(shape.head_dim));
  for (int pair = 0; pair < shape.head_dim / 2; ++pair) {
    weights.turn.frequency.push_back(
        std::pow(10'000.0F, -2.0F * float(pair) / float(shape.head_dim)));
  }
  for (int il = 0; il < shape.n_layer; ++il) {
    weights.w_o.push_back(normals(random, size_t(shape.n_embd) * width, unit(width)));
  }
  weights.norm = normals(random, size_t(shape.n_embd), 0.1F);
  for (float& g : weights.norm) g += 1;
  weights.w_u =
      normals(random, size_t(shape.n_vocab) * size_t(shape.n_embd), 3 * unit(size_t(shape.n_embd)));
  return weights;
}

/// A query whose logit is `peak` at a random entry that position `p` can see, and of spread 1 else.
void look_for_entry(Random& random, const SyntheticCache::Row& row, int32_t p, float scale,
                    float peak, std::span<float> query) {
  const auto noise = normals(random, query.size(), 1 / (scale * std::sqrt(float(query.size()))));
  std::copy(noise.begin(), noise.end(), query.begin());
  const auto visible =
      std::upper_bound(row.positions.begin(), row.positions.end(), p) - row.positions.begin();
  if (visible == 0) return;
  const auto target = std::uniform_int_distribution<ptrdiff_t>(0, visible - 1)(random);
  const auto key = row.keys.begin() + target * ptrdiff_t(query.size());
  const float norm2 = std::inner_product(key, key + ptrdiff_t(query.size()), key, 0.0F);
  for (size_t j = 0; j < query.size(); ++j) query[j] += peak * key[ptrdiff_t(j)] / (norm2 * scale);
}

std::vector<float> next_token_logits(const SyntheticWeights& weights, std::span<const float> x) {
  const size_t width = x.size();
  const float mean2 = std::inner_product(x.begin(), x.end(), x.begin(), 0.0F) / float(width);
  const float s = std::sqrt(mean2 + weights.eps);
  std::vector<float> logits(weights.w_u.size() / width, 0.0F);
  for (size_t v = 0; v < logits.size(); ++v) {
    for (size_t j = 0; j < width; ++j) {
      logits[v] += weights.w_u[v * width + j] * weights.norm[j] * x[j] / s;
    }
  }
  return logits;
}

/// Queries at `count` positions from `first` on.
Observation observe_queries(Random& random, const SyntheticOptions& options,
                            const SyntheticCache& cache, float scale, int32_t first, int count) {
  const ModelShape& shape = options.shape;
  const auto d = size_t(shape.head_dim);
  Observation seen;
  seen.positions.resize(size_t(count));
  std::iota(seen.positions.begin(), seen.positions.end(), first);
  for (int il = 0; il < shape.n_layer; ++il) {
    std::vector<float> query(size_t(count) * size_t(shape.n_head) * d);
    for (int i = 0; i < count * shape.n_head; ++i) {
      const int head_kv = i % shape.n_head / shape.group();
      look_for_entry(random, cache.rows[size_t(shape.row(il, head_kv))],
                     seen.positions[size_t(i / shape.n_head)], scale, options.peak,
                     std::span(query).subspan(size_t(i) * d, d));
    }
    seen.query.push_back(std::move(query));
  }
  return seen;
}

Observation observe(Random& random, const SyntheticOptions& options, const SyntheticCache& cache,
                    const SyntheticWeights& weights) {
  const int m = std::min<int>(options.observed, cache.seen);
  Observation seen = observe_queries(random, options, cache, weights.scale, cache.seen - m, m);
  const auto n_embd = size_t(options.shape.n_embd);
  seen.residual = normals(random, size_t(m) * n_embd);
  for (size_t t = 0; t < size_t(m); ++t) {
    const auto logits =
        next_token_logits(weights, std::span(seen.residual).subspan(t * n_embd, n_embd));
    seen.logits.insert(seen.logits.end(), logits.begin(), logits.end());
  }
  return seen;
}

/// A pass of `count` tokens after what was seen: its entries are not in the cache.
Observation observe_pass(Random& random, const SyntheticOptions& options,
                         const SyntheticCache& cache, float scale, int count) {
  Observation part = observe_queries(random, options, cache, scale, cache.seen, count);
  const ModelShape& shape = options.shape;
  const size_t numbers = size_t(count) * size_t(shape.n_head_kv) * size_t(shape.head_dim);
  for (int il = 0; il < shape.n_layer; ++il) {
    part.own_keys.push_back(normals(random, numbers));
    part.own_values.push_back(normals(random, numbers));
  }
  return part;
}

}  // namespace

const SyntheticCache::Row& SyntheticCache::row(int layer, int head_kv) const {
  return rows.at(size_t(model_shape.row(layer, head_kv)));
}

int SyntheticCache::length(int layer, int head_kv) const {
  return int(row(layer, head_kv).positions.size());
}

std::span<const int32_t> SyntheticCache::positions(int layer, int head_kv) const {
  return row(layer, head_kv).positions;
}

std::span<const float> SyntheticCache::log_weights(int layer, int head_kv) const {
  return row(layer, head_kv).log_weights;
}

void SyntheticCache::keys(int layer, int head_kv, int first, std::span<float> out) const {
  copy_rows(row(layer, head_kv).keys, first, model_shape.head_dim, out);
}

void SyntheticCache::values(int layer, int head_kv, int first, std::span<float> out) const {
  copy_rows(row(layer, head_kv).values, first, model_shape.head_dim, out);
}

int64_t SyntheticCache::total_entries() const {
  int64_t total = 0;
  for (const Row& row : rows) total += int64_t(row.positions.size());
  return total;
}

void SyntheticWeights::output_projection(int layer, std::span<float> out) const {
  copy_rows(w_o.at(size_t(layer)), 0, 1, out);
}

void SyntheticWeights::unembedding(std::span<const int32_t> tokens, std::span<float> out) const {
  const auto width = size_t(model_shape.n_embd);
  for (size_t i = 0; i < tokens.size(); ++i) {
    copy_rows(w_u, tokens[i], model_shape.n_embd, out.subspan(i * width, width));
  }
}

PolicyContext Synthetic::context(int64_t keep_total, int threads) const {
  return {.cache = cache,
          .seen = seen,
          .weights = weights,
          .protection = fit_protection(keep_total, cache.model_shape.n_rows()),
          .keep_total = keep_total,
          .threads = threads,
          .prompt = &prompt,
          .future = &prompt,
          .repeat = repeat,
          .lookahead = &lookahead,
          .calibration = calibration.shares.empty() ? nullptr : &calibration,
          .progress = {}};
}

Synthetic make_synthetic(const SyntheticOptions& options) {
  Random random(options.seed);
  Synthetic synthetic;
  synthetic.cache = make_cache(random, options);
  synthetic.weights = make_weights(random, options.shape);
  synthetic.seen = observe(random, options, synthetic.cache, synthetic.weights);
  const float scale = synthetic.weights.scale;
  synthetic.prompt =
      observe_queries(random, options, synthetic.cache, scale, 0, synthetic.cache.seen);
  for (const int count : {70, 3}) {
    synthetic.repeat.push_back(observe_pass(random, options, synthetic.cache, scale, count));
  }
  synthetic.lookahead = observe_pass(random, options, synthetic.cache, scale, 12);
  synthetic.calibration = random_calibration(options.shape, options.seed);
  return synthetic;
}

Calibration random_calibration(const ModelShape& shape, uint32_t seed) {
  Random random(seed);
  const auto positives = [&](int count) {
    auto out = normals(random, size_t(count));
    for (float& x : out) x *= x;
    return out;
  };
  Calibration out{.model_hash = "0123456789abcdef",
                  .n_layer = shape.n_layer,
                  .n_head = shape.n_head,
                  .n_head_kv = shape.n_head_kv,
                  .shares = {},
                  .sensitivity = positives(shape.n_layer * shape.n_head)};
  for (const double kept : {0.5, 0.2, 0.05}) {
    auto row = positives(shape.n_rows());
    const float sum = std::accumulate(row.begin(), row.end(), 0.0F);
    for (float& x : row) x /= sum;
    out.shares.push_back({.kept = kept, .row = std::move(row)});
  }
  return out;
}

ModelShape small_shape(int n_layer, int n_head_kv, int group) {
  return {.n_layer = n_layer,
          .n_head = n_head_kv * group,
          .n_head_kv = n_head_kv,
          .head_dim = 16,
          .n_embd = 24,
          .n_vocab = 50};
}

}  // namespace pith::test
