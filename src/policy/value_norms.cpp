#include "policy/value_norms.h"

#include <Eigen/Core>
#include <algorithm>

namespace pith {

namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Entries projected at a time.
constexpr int kTile = 128;

Matrix values_of(const PolicyContext& context, int layer, int head_kv, int first, int count) {
  Matrix values(count, context.cache.shape().head_dim);
  context.cache.values(layer, head_kv, first, {values.data(), size_t(values.size())});
  return values;
}

/// Calls visit(first entry, query head of the group, [count, n_embd]) with the values of some
/// entries at a time through the output projection of each query head.
template <typename Visit>
void each_projection(const PolicyContext& context, int layer, int head_kv, const Visit& visit) {
  const ModelShape& shape = context.cache.shape();
  Matrix output(shape.n_embd, Eigen::Index{shape.n_head} * shape.head_dim);
  context.weights.output_projection(layer, {output.data(), size_t(output.size())});
  const int n = context.cache.length(layer, head_kv);
  for (int first = 0; first < n; first += kTile) {
    const int count = std::min(kTile, n - first);
    const Matrix values = values_of(context, layer, head_kv, first, count);
    for (int head = 0; head < shape.group(); ++head) {
      const Eigen::Index column = Eigen::Index(head_kv * shape.group() + head) * shape.head_dim;
      const Matrix projected = values * output.middleCols(column, shape.head_dim).transpose();
      visit(first, head, projected);
    }
  }
}

}  // namespace

std::vector<float> projected_value_norms(const PolicyContext& context, int layer, int head_kv) {
  const auto group = float(context.cache.shape().group());
  std::vector<float> norms(size_t(context.cache.length(layer, head_kv)), 0.0F);
  each_projection(context, layer, head_kv, [&](int first, int, const Matrix& projected) {
    Eigen::Map<Eigen::VectorXf>(norms.data() + first, projected.rows()) +=
        projected.cwiseAbs().rowwise().sum() / group;
  });
  return norms;
}

std::vector<float> projected_value_lengths(const PolicyContext& context, int layer, int head_kv) {
  const Eigen::Index n = context.cache.length(layer, head_kv);
  const Eigen::Index group = context.cache.shape().group();
  std::vector<float> lengths(size_t(n * group));
  Eigen::Map<Matrix> out(lengths.data(), n, group);
  each_projection(context, layer, head_kv, [&](int first, int head, const Matrix& projected) {
    out.col(head).segment(first, projected.rows()) = projected.rowwise().norm();
  });
  return lengths;
}

size_t projected_value_norm_bytes(const PolicyContext& context, int layer, int head_kv) {
  const ModelShape& shape = context.cache.shape();
  const auto width = size_t(shape.n_head) * size_t(shape.head_dim);
  const auto n_embd = size_t(shape.n_embd);
  return sizeof(float) * (n_embd * width + kTile * (size_t(shape.head_dim) + n_embd) +
                          size_t(context.cache.length(layer, head_kv)) * size_t(shape.group()));
}

std::vector<float> value_norms(const PolicyContext& context, int layer, int head_kv) {
  const int n = context.cache.length(layer, head_kv);
  std::vector<float> norms;
  norms.reserve(size_t(n));
  for (int first = 0; first < n; first += kTile) {
    const Matrix values = values_of(context, layer, head_kv, first, std::min(kTile, n - first));
    for (Eigen::Index i = 0; i < values.rows(); ++i) norms.push_back(values.row(i).norm());
  }
  return norms;
}

}  // namespace pith
