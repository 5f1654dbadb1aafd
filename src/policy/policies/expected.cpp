#include <algorithm>
#include <cmath>

#include "policy/attention_probs.h"
#include "policy/keys.h"
#include "policy/policies/policies.h"
#include "policy/rotate.h"
#include "policy/score_rows.h"
#include "policy/value_norms.h"

namespace pith {

namespace {

using Vector = Eigen::VectorXd;
using Square = Eigen::MatrixXd;

constexpr Reading kPrompt{.source = Source::prompt};

/// Mean over `count` positions from `next` on of the matrix that rotates a query.
Square mean_rotation(const Rotation& rotation, int head_dim, int32_t next, int count) {
  Square out = Square::Identity(head_dim, head_dim);
  for (size_t j = 0; j < rotation.frequency.size(); ++j) {
    double c = 0, s = 0;
    for (int p = 0; p < count; ++p) {
      const double angle = double(next + p) * double(rotation.frequency[j]);
      c += std::cos(angle) / count;
      s += std::sin(angle) / count;
    }
    const RotatedPair at = pair_of(rotation, j);
    out(at.first, at.first) = out(at.second, at.second) = c;
    out(at.first, at.second) = -s;
    out(at.second, at.first) = s;
  }
  return out;
}

/// Mean and covariance of a head's queries before their rotation.
struct Moments {
  Vector mean;
  Square covariance;
};

Moments query_moments(const PolicyContext& context, const Rotation& rotation, int layer, int head,
                      int skip) {
  const ModelShape& shape = context.cache.shape();
  const auto& positions = context.prompt->positions;
  const size_t first = std::min(size_t(skip), positions.size() - 1);
  const auto count = double(positions.size() - first);
  Moments out{Vector::Zero(shape.head_dim), Square::Zero(shape.head_dim, shape.head_dim)};
  for (size_t t = first; t < positions.size(); ++t) {
    const float* query = context.prompt->query.at(size_t(layer)).data() +
                         (t * size_t(shape.n_head) + size_t(head)) * size_t(shape.head_dim);
    Vector q = Eigen::Map<const Eigen::VectorXf>(query, shape.head_dim).cast<double>();
    turn(rotation, -double(positions[t]), q);
    out.mean += q;
    out.covariance.selfadjointView<Eigen::Lower>().rankUpdate(q);
  }
  out.mean /= count;
  out.covariance = Square(out.covariance.selfadjointView<Eigen::Lower>()) / count -
                   out.mean * out.mean.transpose();
  return out;
}

class ExpectedScorer : public Scorer {
 public:
  ExpectedScorer(int future, double eps, int skip) : future_(future), eps_(eps), skip_(skip) {}

  Needs needs() const override { return kPrompt.needs(); }

  Scores score(const PolicyContext& context) const override {
    kPrompt.positions(context, "expected");
    const auto bytes = [&](int layer, int head_kv) {
      const auto d = size_t(context.cache.shape().head_dim);
      // Keys as float and double, their products, and the squares of the moments.
      return 6 * keys_bytes(context, layer, head_kv) + 8 * d * d * sizeof(double);
    };
    return score_each_row(context, bytes, [&](const ScoredRow& row) { score_row(context, row); });
  }

 private:
  void score_row(const PolicyContext& context, const ScoredRow& row) const {
    const ModelShape& shape = context.cache.shape();
    const Rotation rotation = context.weights.rotation(row.layer);
    const Square future =
        mean_rotation(rotation, shape.head_dim, context.cache.next_position(), future_);
    const Square keys = keys_of(context, row.layer, row.head_kv).cast<double>();
    std::vector<double> mean(row.scores.size(), 0.0);
    for (int h = 0; h < shape.group(); ++h) {
      const auto moments =
          query_moments(context, rotation, row.layer, row.head_kv * shape.group() + h, skip_);
      add_head(context, keys, future, moments, mean);
    }
    const auto norms = value_norms(context, row.layer, row.head_kv);
    for (size_t i = 0; i < mean.size(); ++i) {
      row.scores[i] = float((mean[i] / shape.group() + eps_) * double(norms[i]));
    }
  }

  /// Softmax of log E exp(q.k) for a Gaussian q over the entries after the sinks, added to `sums`.
  static void add_head(const PolicyContext& context, const Square& keys, const Square& future,
                       const Moments& moments, std::vector<double>& sums) {
    const auto scale = double(context.weights.attention_scale());
    const auto sinks = std::min<Eigen::Index>(context.protection.sinks, keys.rows() - 1);
    const Square rest = keys.bottomRows(keys.rows() - sinks);
    const Vector mean = future * moments.mean;
    const Square covariance = future * moments.covariance * future.transpose();
    Eigen::ArrayXd logits = scale * (rest * mean).array();
    logits += scale * scale / 2 * (rest * covariance).cwiseProduct(rest).rowwise().sum().array();
    logits = (logits - logits.maxCoeff()).exp();
    logits /= logits.sum();
    for (Eigen::Index i = 0; i < logits.size(); ++i) sums[size_t(sinks + i)] += logits[i];
  }

  int future_;
  double eps_;
  int skip_;
};

}  // namespace

ScoreRow expected_row() {
  return {.name = "expected",
          .summary = "entries that the queries to come are expected to attend to",
          .paper =
              "Devoto et al., Expected Attention: KV Cache Compression by Estimating Attention "
              "from Future Queries Distribution, arXiv 2510.00636",
          .formula =
              "(mean over the group of softmax(mu.k + k.Sigma.k / 2) + eps) ||v||, protected sinks "
              "left out of the softmax; mu, Sigma of "
              "the prompt's queries before RoPE, rotated by the mean over the next `future` "
              "positions",
          .differences = "",
          .budget = "uniform",
          .knobs = {{.name = "future",
                     .value = "512",
                     .min = 1,
                     .max = 65536,
                     .integer = true,
                     .choices = {},
                     .help = "positions ahead that are averaged over"},
                    {.name = "eps",
                     .value = "0.01",
                     .min = 0,
                     .max = 1,
                     .choices = {},
                     .help = "added to the attention before the product"},
                    {.name = "skip",
                     .value = "4",
                     .min = 0,
                     .max = 1024,
                     .integer = true,
                     .choices = {},
                     .help = "first queries left out of the statistics"}},
          .make = [](const KnobValues& knobs) -> std::unique_ptr<Scorer> {
            return std::make_unique<ExpectedScorer>(knobs.integer("future"), knobs.number("eps"),
                                                    knobs.integer("skip"));
          },
          .attention = true};
}

}  // namespace pith
