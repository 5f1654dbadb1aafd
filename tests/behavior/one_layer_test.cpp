#include "reference/one_layer.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "behavior/logit_metric.h"
#include "behavior/mask_costs.h"

namespace pith::behavior {
namespace {

using reference::Doubles;
using reference::OneLayer;

constexpr int kEvicted = 2;  // the first entries

/// What the model looks like besides its sizes.
struct Head {
  std::string name;
  NormKind final = NormKind::rms, post_attention = NormKind::none;
  double scale = 1, softcap = 0;
};

Doubles waves(size_t count, double frequency) {
  Doubles out(count);
  for (size_t i = 0; i < count; ++i) out[i] = std::sin(frequency * double(i + 1) + 0.3);
  return out;
}

/// Of attention the evicted entries get about `share`.
OneLayer model_of(const Head& head, double share) {
  OneLayer m{.n_head = 2, .head_dim = 3, .n_embd = 6, .n_vocab = 7, .entries = 5};
  m.values = waves(15, 1.7);
  m.w_o = waves(36, 2.9);
  m.w_u = waves(42, 0.7);
  m.before = waves(6, 4.1);
  m.final = {head.final, waves(6, 0.4), 1e-5};
  m.post_attention = {head.post_attention, waves(6, 0.9), 1e-5};
  m.scale = head.scale;
  m.softcap = head.softcap;
  for (int i = 0; i < m.entries; ++i) {
    const double size = i < kEvicted ? share : 1;
    m.alpha.push_back(size * (1 + i));
    m.alpha.push_back(size * (5 - i));
  }
  for (int h = 0; h < 2; ++h) {
    double sum = 0;
    for (int i = 0; i < m.entries; ++i) sum += m.alpha[size_t(2 * i + h)];
    for (int i = 0; i < m.entries; ++i) m.alpha[size_t(2 * i + h)] /= sum;
  }
  return m;
}

Doubles softmax(const Doubles& z) {
  std::vector<int32_t> all(z.size());
  std::iota(all.begin(), all.end(), 0);
  return probabilities<double>(z, all);
}

double true_kl(const OneLayer& m) {
  std::vector<bool> evicted(size_t(m.entries), false);
  const Doubles z = m.logits(evicted);
  std::fill_n(evicted.begin(), kEvicted, true);
  Doubles shift = m.logits(evicted);
  for (size_t j = 0; j < z.size(); ++j) shift[j] -= z[j];
  return kl_of_shift(softmax(z), shift);
}

double estimated_kl(const OneLayer& m) {
  const std::vector<bool> nothing(size_t(m.entries), false);
  const Doubles z = m.logits(nothing), p = softmax(z);
  const Doubles state = m.state(nothing), attended = m.attention(nothing);
  const NormJacobian<double> norm(m.final.kind, state, m.final.gain, m.final.eps);
  RowMatrix<double> map = Eigen::Map<const RowMatrix<double>>(m.w_u.data(), m.n_vocab, m.n_embd);
  for (int j = 0; j < m.n_vocab; ++j) {
    norm.pull_back({map.row(j).data(), size_t(m.n_embd)});
    map.row(j) *= logit_slope(z[size_t(j)], m.scale, m.softcap);
  }
  Readout<double> readout(1, m.n_vocab, m.n_embd);
  readout.set(0, map);
  const auto& post = m.post_attention;
  readout.pull_back(0, NormJacobian<double>(post.kind, attended, post.gain, post.eps));

  const RowMatrix<double> w_o =
      Eigen::Map<const RowMatrix<double>>(m.w_o.data(), m.n_embd, m.n_head * m.head_dim);
  GroupFeatures<double> features;
  make_features<double>({.layer = 0,
                         .entries = m.entries,
                         .heads = m.n_head,
                         .head_dim = m.head_dim,
                         .alpha = m.alpha,
                         .values = m.values,
                         .output_projection = &w_o,
                         .first_head = 0},
                        readout, features);
  MaskCosts<double> costs(1, Objective::kl, p);
  RowMatrix<double> keep = RowMatrix<double>::Ones(1, m.entries);
  keep.leftCols(kEvicted).setZero();
  costs.add(features, keep);
  return costs.costs()[0];
}

class OneLayerTest : public testing::TestWithParam<Head> {
 protected:
  static double relative_error(double share) {
    const OneLayer m = model_of(GetParam(), share);
    return std::abs(estimated_kl(m) / true_kl(m) - 1);
  }
};

TEST_P(OneLayerTest, TheEstimateIsTheTrueKlToFirstOrder) {
  const double coarse = relative_error(1e-3), fine = relative_error(1e-4);
  EXPECT_LT(coarse, 0.05);
  EXPECT_LT(fine, 0.2 * coarse + 1e-9);
}

INSTANTIATE_TEST_SUITE_P(
    Heads, OneLayerTest,
    testing::Values(
        Head{.name = "rms"}, Head{.name = "layer", .final = NormKind::layer},
        Head{.name = "none", .final = NormKind::none}, Head{.name = "scaled", .scale = 0.25},
        Head{.name = "capped", .scale = 3, .softcap = 2},
        Head{.name = "post_rms", .post_attention = NormKind::rms, .softcap = 5},
        Head{.name = "post_layer", .final = NormKind::layer, .post_attention = NormKind::layer}),
    [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace pith::behavior
