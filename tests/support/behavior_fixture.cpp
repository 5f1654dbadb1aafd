#include "support/behavior_fixture.h"

#include <fstream>

#include "behavior/logit_metric.h"
#include "behavior/norm_jacobian.h"

namespace pith::test {
namespace {

using behavior::RowMatrix;
using Doubles = std::vector<double>;

/// RMSNorm of one state, written out.
Doubles normed(std::span<const double> x, std::span<const double> gain, double eps) {
  double mean = eps;
  for (const double v : x) mean += v * v / double(x.size());
  Doubles y;
  for (size_t i = 0; i < x.size(); ++i) y.push_back(gain[i] * x[i] / std::sqrt(mean));
  return y;
}

template <class T>
std::vector<T> converted(std::span<const double> from) {
  return {from.begin(), from.end()};
}

void append(const RowMatrix<double>& map, Doubles& to) {
  to.insert(to.end(), map.data(), map.data() + map.size());
}

}  // namespace

BehaviorFixture::BehaviorFixture()
    : json_(nlohmann::json::parse(std::ifstream(PITH_TEST_DATA "/behavior.json"))) {
  const auto& cfg = json_["cfg"];
  const auto& in = json_["inputs"];
  const int n_embd = cfg["D"], n_vocab = cfg["V"], topk = cfg["K"];
  form_ = {.n_layer = cfg["L"],
           .n_head = cfg["H"],
           .n_head_kv = cfg["G"],
           .head_dim = cfg["d"],
           .n_embd = n_embd,
           .positions = cfg["m"],
           .entries = cfg["n"],
           .rank = topk,
           .alpha = {},
           .values = in["v"],
           .w_o = in["wo"],
           .readout = {},
           .p = {}};
  form_.alpha =
      reference::causal_attention(in["q"], in["k"], form_.n_layer, form_.n_head, form_.n_head_kv,
                                  form_.positions, form_.entries, form_.head_dim);
  logits_ = form_;
  const Doubles x = in["x"], gain = in["norm"], head = in["head"];
  const Eigen::Map<const RowMatrix<double>> unembedding(head.data(), n_vocab, n_embd);
  for (int t = 0; t < form_.positions; ++t) {
    const auto state = std::span(x).subspan(size_t(t * n_embd), size_t(n_embd));
    const Doubles y = normed(state, gain, cfg["rms_eps"]);
    const Eigen::VectorXd z = unembedding * Eigen::Map<const Eigen::VectorXd>(y.data(), n_embd);
    const std::span<const double> logits(z.data(), size_t(z.size()));
    top_.push_back(behavior::top_tokens(logits, topk));
    const Doubles p = behavior::probabilities(logits, std::span<const int32_t>(top_.back()));
    const behavior::NormJacobian<double> norm(behavior::NormKind::rms, state, gain, cfg["rms_eps"]);
    RowMatrix<double> map(topk, n_embd);
    for (int j = 0; j < topk; ++j) {
      map.row(j) = unembedding.row(top_.back()[size_t(j)]);
      norm.pull_back({map.row(j).data(), size_t(n_embd)});
    }
    append(map, logits_.readout);
    append(behavior::quadratic_form(map, p, topk), form_.readout);
    logits_.p.insert(logits_.p.end(), p.begin(), p.end());
  }
}

std::vector<behavior::Candidate> BehaviorFixture::candidates() const {
  const int sinks = json_["cfg"]["sinks"], window = json_["cfg"]["win"];
  std::vector<behavior::Candidate> out;
  for (int group = 0; group < form_.n_layer * form_.n_head_kv; ++group) {
    for (int i = sinks; i < form_.entries - window; ++i) out.push_back({group, i});
  }
  return out;
}

template <class T>
std::vector<behavior::GroupFeatures<T>> features_of(const reference::BehaviorCase& c) {
  behavior::Readout<T> readout(c.positions, c.rank, c.n_embd);
  for (int t = 0; t < c.positions; ++t) {
    const Eigen::Map<const RowMatrix<double>> map(&c.readout[size_t(t * c.rank * c.n_embd)], c.rank,
                                                  c.n_embd);
    readout.set(t, map.cast<T>());
  }
  const int heads = c.n_head / c.n_head_kv;
  const size_t group_values = size_t(c.entries * c.head_dim);
  std::vector<behavior::GroupFeatures<T>> out(size_t(c.n_layer * c.n_head_kv));
  for (int group = 0; group < int(out.size()); ++group) {
    const int layer = group / c.n_head_kv, first_head = group % c.n_head_kv * heads;
    std::vector<T> alpha;
    for (int i = 0; i < c.entries; ++i) {
      for (int t = 0; t < c.positions; ++t) {
        for (int h = 0; h < heads; ++h)
          alpha.push_back(T(c.attention(layer, first_head + h, t, i)));
      }
    }
    const auto values =
        converted<T>(std::span(c.values).subspan(size_t(group) * group_values, group_values));
    const Eigen::Index width = Eigen::Index{c.n_head} * c.head_dim;
    const RowMatrix<T> output = Eigen::Map<const RowMatrix<double>>(
                                    &c.w_o[size_t(layer * c.n_embd * width)], c.n_embd, width)
                                    .template cast<T>();
    behavior::make_features<T>({.layer = layer,
                                .entries = c.entries,
                                .heads = heads,
                                .head_dim = c.head_dim,
                                .alpha = alpha,
                                .values = values,
                                .output_projection = &output,
                                .first_head = first_head},
                               readout, out[size_t(group)]);
  }
  return out;
}

template std::vector<behavior::GroupFeatures<float>> features_of(const reference::BehaviorCase&);
template std::vector<behavior::GroupFeatures<double>> features_of(const reference::BehaviorCase&);

const char* fixture_name(behavior::Objective objective) {
  switch (objective) {
    case behavior::Objective::head:
      return "head";
    case behavior::Objective::layer:
      return "layer";
    case behavior::Objective::total:
      return "quad";
    case behavior::Objective::kl:
      break;
  }
  return "kl";
}

}  // namespace pith::test
