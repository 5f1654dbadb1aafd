#include "support/one_head.h"

#include <cmath>
#include <numeric>

namespace pith::test {

Synthetic one_head(const std::vector<float>& weights, const std::vector<float>& x, float own) {
  Synthetic out;
  const ModelShape shape{
      .n_layer = 1, .n_head = 1, .n_head_kv = 1, .head_dim = 2, .n_embd = 2, .n_vocab = 2};
  out.cache.model_shape = out.weights.model_shape = shape;
  SyntheticCache::Row row;
  row.positions.resize(weights.size());
  std::iota(row.positions.begin(), row.positions.end(), 0);
  for (size_t i = 0; i < weights.size(); ++i) {
    row.keys.insert(row.keys.end(), {std::log(weights[i]), 0});
    row.values.insert(row.values.end(), {x[i], 0});
  }
  out.cache.rows = {row};
  out.cache.seen = int32_t(weights.size());
  out.weights.w_o = {{1, 0, 0, 1}};
  out.seen.positions = {out.cache.seen - 1};
  out.seen.query = {{1, 0}};
  out.prompt.positions = row.positions;
  out.prompt.query.resize(1);
  for (size_t t = 0; t < weights.size(); ++t) {
    out.prompt.query[0].insert(out.prompt.query[0].end(), {1, 0});
  }
  Observation repeat{
      .positions = {out.cache.seen}, .query = {{1, 0}}, .residual = {}, .logits = {}};
  repeat.own_keys = {{std::log(own), 0}};
  repeat.own_values = {{0, 0}};
  out.repeat = {repeat};
  out.lookahead = repeat;
  return out;
}

}  // namespace pith::test
