#include "policy/policies/leverage.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>

#include "policy/keys.h"
#include "policy/policies/policies.h"
#include "policy/rotate.h"
#include "policy/score_rows.h"

namespace pith {

namespace {

using Square = Eigen::MatrixXd;

/// Added to the diagonal, so that few or equal keys can be inverted.
constexpr double kJitter = 1e-2;

void score_row(const PolicyContext& context, const ScoredRow& row) {
  const Rotation rotation = context.weights.rotation(row.layer);
  const auto positions = context.cache.positions(row.layer, row.head_kv);
  Square keys = keys_of(context, row.layer, row.head_kv).cast<double>().transpose();
  for (Eigen::Index i = 0; i < keys.cols(); ++i) {
    turn(rotation, -double(positions[size_t(i)]), keys.col(i));
  }
  keys.colwise() -= Eigen::VectorXd(keys.rowwise().mean());
  Square gram = keys * keys.transpose();
  gram.diagonal().array() += kJitter;
  const Square solved = gram.llt().solve(keys);
  for (Eigen::Index i = 0; i < keys.cols(); ++i) {
    row.scores[size_t(i)] = float(std::max(0.0, keys.col(i).dot(solved.col(i))));
  }
}

class LeverageScorer : public Scorer {
 public:
  Scores score(const PolicyContext& context) const override {
    Scores scores = key_leverage(context);
    standardize_layers(scores, context.cache.shape());
    return scores;
  }
};

}  // namespace

Scores key_leverage(const PolicyContext& context) {
  const auto bytes = [&](int layer, int head_kv) {
    const auto d = size_t(context.cache.shape().head_dim);
    // Keys as float, and as double with their solution.
    return 5 * keys_bytes(context, layer, head_kv) + 2 * d * d * sizeof(double);
  };
  return score_each_row(context, bytes, [&](const ScoredRow& row) { score_row(context, row); });
}

void standardize_layers(Scores& scores, const ModelShape& shape) {
  for (int layer = 0; layer < shape.n_layer; ++layer) {
    const auto rows =
        std::span(scores.rows).subspan(size_t(shape.row(layer, 0)), size_t(shape.n_head_kv));
    double count = 0, sum = 0, squares = 0;
    for (const auto& row : rows) {
      for (const float x : row) sum += double(x);
      count += double(row.size());
    }
    const double mean = sum / std::max(1.0, count);
    for (const auto& row : rows) {
      for (const float x : row) squares += (double(x) - mean) * (double(x) - mean);
    }
    const double deviation = std::max(1e-6, std::sqrt(squares / std::max(1.0, count - 1)));
    for (auto& row : rows) {
      for (float& x : row) x = float((double(x) - mean) / deviation);
    }
  }
}

ScoreRow leverage_row() {
  return {.name = "leverage",
          .summary = "entries whose keys the others' do not span",
          .paper =
              "Chari and Van Durme, Compactor: Calibrated Query-Agnostic KV Cache Compression "
              "with Approximate Leverage Scores, arXiv 2507.08143",
          .formula =
              "x.(X^T X + 0.01)^-1 x of keys before RoPE less their mean, standardized over "
              "the KV heads of a layer",
          .differences = "exact leverage; the paper sketches the keys with random signs first",
          .budget = "uniform",
          .knobs = {},
          .make = [](const KnobValues&) -> std::unique_ptr<Scorer> {
            return std::make_unique<LeverageScorer>();
          }};
}

}  // namespace pith
