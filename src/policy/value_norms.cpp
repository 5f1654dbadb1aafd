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

}  // namespace

std::vector<float> projected_value_norms(const PolicyContext& context, int layer, int head_kv) {
  const ModelShape& shape = context.cache.shape();
  Matrix output(shape.n_embd, Eigen::Index{shape.n_head} * shape.head_dim);
  context.weights.output_projection(layer, {output.data(), size_t(output.size())});
  std::vector<float> norms(size_t(context.cache.length(layer, head_kv)), 0.0F);
  for (int first = 0; first < int(norms.size()); first += kTile) {
    const int count = std::min(kTile, int(norms.size()) - first);
    const Matrix values = values_of(context, layer, head_kv, first, count);
    Eigen::Map<Eigen::VectorXf> out(norms.data() + first, count);
    for (int head = 0; head < shape.group(); ++head) {
      const Eigen::Index column = Eigen::Index(head_kv * shape.group() + head) * shape.head_dim;
      const Matrix projected = values * output.middleCols(column, shape.head_dim).transpose();
      out += projected.cwiseAbs().rowwise().sum() / float(shape.group());
    }
  }
  return norms;
}

size_t projected_value_norm_bytes(const PolicyContext& context, int layer, int head_kv) {
  const ModelShape& shape = context.cache.shape();
  const auto width = size_t(shape.n_head) * size_t(shape.head_dim);
  const auto n_embd = size_t(shape.n_embd);
  return sizeof(float) * (n_embd * width + kTile * (size_t(shape.head_dim) + n_embd) +
                          size_t(context.cache.length(layer, head_kv)));
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
