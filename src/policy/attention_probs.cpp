#include "policy/attention_probs.h"

#include <Eigen/Core>
#include <algorithm>
#include <limits>

namespace pith {

namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Queries of a group at the last `count` observed positions, scaled [count * group, head_dim].
Matrix scaled_queries(const PolicyContext& context, int layer, int head_kv, int count) {
  const ModelShape& shape = context.cache.shape();
  const int group = shape.group();
  const auto first = Eigen::Index(context.seen.positions.size()) - count;
  const float* query = context.seen.query.at(size_t(layer)).data();
  Matrix out(Eigen::Index{count} * group, shape.head_dim);
  for (int t = 0; t < count; ++t) {
    const Eigen::Index head = (first + t) * shape.n_head + Eigen::Index{head_kv} * group;
    out.middleRows(Eigen::Index{t} * group, group) =
        Eigen::Map<const Matrix>(query + head * shape.head_dim, group, shape.head_dim);
  }
  return context.weights.attention_scale() * out;
}

/// For each entry the first row that sees it: the rows after it, being later, see it too.
std::vector<int> first_rows(std::span<const int32_t> entries, std::span<const int32_t> seen,
                            int group) {
  std::vector<int> out;
  out.reserve(entries.size());
  for (const int32_t position : entries) {
    const auto t = std::lower_bound(seen.begin(), seen.end(), position) - seen.begin();
    out.push_back(int(t) * group);
  }
  return out;
}

/// Softmax down the columns of `logits` [n, rows] in place. A row that sees no entry gets zeros.
void softmax_over_entries(Eigen::Map<Matrix>& logits, std::span<const int> first,
                          std::span<const float> log_weights) {
  const Eigen::Index rows = logits.cols();
  Eigen::ArrayXf highest = Eigen::ArrayXf::Constant(rows, std::numeric_limits<float>::lowest());
  Eigen::ArrayXd sum = Eigen::ArrayXd::Zero(rows);
  for (Eigen::Index i = 0; i < logits.rows(); ++i) {
    const Eigen::Index seeing = rows - first[size_t(i)];
    auto row = logits.row(i).tail(seeing).transpose().array();
    if (!log_weights.empty()) row += log_weights[size_t(i)];
    highest.tail(seeing) = highest.tail(seeing).max(row);
  }
  for (Eigen::Index i = 0; i < logits.rows(); ++i) {
    const Eigen::Index seeing = rows - first[size_t(i)];
    auto row = logits.row(i).tail(seeing).transpose().array();
    row = (row - highest.tail(seeing)).exp();
    sum.tail(seeing) += row.cast<double>();
    logits.row(i).head(rows - seeing).setZero();
  }
  const Eigen::ArrayXf factor = (sum > 0).select(sum.inverse(), 0).cast<float>();
  logits.array().rowwise() *= factor.transpose();
}

}  // namespace

int observed_count(const PolicyContext& context, int count) {
  return std::min(count, int(context.seen.positions.size()));
}

size_t attention_probs_bytes(const PolicyContext& context, int layer, int head_kv, int count) {
  const ModelShape& shape = context.cache.shape();
  const auto entries = size_t(context.cache.length(layer, head_kv));
  const auto rows = size_t(observed_count(context, count)) * size_t(shape.group());
  const auto d = size_t(shape.head_dim);
  // Probabilities, keys, queries (twice while they are scaled), first seeing row of each entry.
  return sizeof(float) * (entries * (rows + d + 1) + 2 * rows * d);
}

AttentionProbs attention_probs(const PolicyContext& context, int layer, int head_kv, int count) {
  const ModelShape& shape = context.cache.shape();
  const int m = observed_count(context, count);
  AttentionProbs out;
  out.entries = context.cache.length(layer, head_kv);
  out.rows = m * shape.group();
  out.alpha.resize(size_t(out.entries) * size_t(out.rows));

  Matrix keys(out.entries, shape.head_dim);
  context.cache.keys(layer, head_kv, 0, {keys.data(), size_t(keys.size())});
  const Matrix queries = scaled_queries(context, layer, head_kv, m);
  Eigen::Map<Matrix> logits(out.alpha.data(), out.entries, out.rows);
  logits.noalias() = keys * queries.transpose();

  const std::span<const int32_t> seen(context.seen.positions);
  const auto first =
      first_rows(context.cache.positions(layer, head_kv), seen.last(size_t(m)), shape.group());
  softmax_over_entries(logits, first, context.cache.log_weights(layer, head_kv));
  return out;
}

}  // namespace pith
