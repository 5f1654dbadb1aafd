#include "policy/policies/behavior_inputs.h"

#include <algorithm>
#include <optional>
#include <span>

#include "base/parallel.h"
#include "behavior/logit_metric.h"
#include "behavior/mask_costs.h"
#include "behavior/norm_jacobian.h"
#include "policy/keys.h"
#include "policy/score_rows.h"

namespace pith {

using behavior::Objective;
using Matrix = behavior::RowMatrix<float>;

namespace {

/// Readouts and probabilities of all positions, and for each thread the logit map, a copy of it for
/// the decomposition, and the Gram matrix of that.
size_t checked_shared_bytes(const PolicyContext& context, int positions, int topk, int rank) {
  const auto width = size_t(context.cache.shape().n_embd), k = size_t(topk);
  const auto count = size_t(observed_count(context, positions));
  const size_t held = size_t(behavior::padded(int(count))) * size_t(rank) * width * sizeof(float) +
                      count * k * sizeof(double);
  const size_t side = std::min(k, width);
  const size_t making = 2 * k * width * sizeof(float) + side * side * sizeof(double);
  const size_t bytes = held + making * size_t(std::max(1, context.threads));
  if (bytes > context.scratch_bytes) {
    throw Error(ErrorCode::memory,
                "behavior: topk=" + std::to_string(topk) + " at " + std::to_string(count) +
                    " positions takes " + std::to_string(bytes) +
                    " bytes of scratch, and the limit is " + std::to_string(context.scratch_bytes));
  }
  return bytes;
}

behavior::NormJacobian<float> jacobian(const Norm& norm, std::span<const float> x) {
  using behavior::NormKind;
  const NormKind kind = norm.centred ? NormKind::layer : NormKind::rms;
  return {norm.gain.empty() ? NormKind::none : kind, x, norm.gain, double(norm.eps)};
}

}  // namespace

BehaviorInputs::BehaviorInputs(const PolicyContext& context, Objective objective, int positions,
                               int topk, int rank)
    : context_(context),
      objective_(objective),
      rank_(objective == Objective::kl ? topk : rank),
      shared_bytes_(checked_shared_bytes(context, positions, topk, rank_)),
      readout_(observed_count(context, positions), rank_, context.cache.shape().n_embd),
      p_(size_t(readout_.positions()) * size_t(topk)) {
  parallel_for(readout_.positions(), context.threads, [&](int t) { read_position(t, topk); });
}

void BehaviorInputs::read_position(int position, int topk) {
  const ModelShape& shape = context_.cache.shape();
  const Observation& seen = context_.seen;
  const size_t at = seen.positions.size() - size_t(readout_.positions() - position);
  const auto n_embd = size_t(shape.n_embd), n_vocab = size_t(shape.n_vocab);
  const auto logits = std::span(seen.logits).subspan(at * n_vocab, n_vocab);
  const auto tokens = behavior::top_tokens(logits, topk);
  const auto p = behavior::probabilities<float>(logits, tokens);
  std::copy(p.begin(), p.end(), p_.begin() + std::ptrdiff_t(position) * topk);

  Matrix map(topk, shape.n_embd);
  context_.weights.unembedding(tokens, {map.data(), size_t(map.size())});
  const auto norm = jacobian(context_.weights.final_norm(),
                             std::span(seen.residual).subspan(at * n_embd, n_embd));
  const LogitShape shape_of_logits = context_.weights.logit_shape();
  for (int j = 0; j < topk; ++j) {
    norm.pull_back({map.row(j).data(), n_embd});
    const float logit = logits[size_t(tokens[size_t(j)])];
    map.row(j) *=
        float(behavior::logit_slope(logit, shape_of_logits.scale, shape_of_logits.softcap));
  }
  readout_.set(position,
               objective_ == Objective::kl ? map : behavior::quadratic_form(map, p, rank_));
}

Matrix BehaviorInputs::attention_output(int layer, const Matrix& projection) const {
  const ModelShape& shape = context_.cache.shape();
  const int d = shape.head_dim, group = shape.group();
  Matrix out = Matrix::Zero(readout_.positions(), shape.n_embd);
  for (int head_kv = 0; head_kv < shape.n_head_kv; ++head_kv) {
    const auto probs = attention_probs(context_, layer, head_kv, readout_.positions());
    const Eigen::Map<const Matrix> alpha(probs.alpha.data(), probs.entries, probs.rows);
    const Matrix heads =
        alpha.transpose() * values_of(context_, layer, head_kv).topRows(probs.entries);
    for (int h = 0; h < group; ++h) {
      const auto of_head = Eigen::Map<const Matrix, 0, Eigen::OuterStride<>>(
          heads.row(h).data(), out.rows(), d, Eigen::OuterStride<>(Eigen::Index{group} * d));
      out += of_head * projection.middleCols(Eigen::Index(head_kv * group + h) * d, d).transpose();
    }
  }
  return out;
}

behavior::Readout<float> BehaviorInputs::before_norm(int layer, const Norm& norm,
                                                     const Matrix& projection) const {
  const Matrix attended = attention_output(layer, projection);
  behavior::Readout<float> out = readout_;
  for (int t = 0; t < out.positions(); ++t) {
    out.pull_back(t, jacobian(norm, {attended.row(t).data(), size_t(attended.cols())}));
  }
  return out;
}

void BehaviorInputs::make_features(int layer, int head_kv,
                                   behavior::GroupFeatures<float>& out) const {
  const ModelShape& shape = context_.cache.shape();
  Matrix output(shape.n_embd, Eigen::Index{shape.n_head} * shape.head_dim);
  context_.weights.output_projection(layer, {output.data(), size_t(output.size())});
  const Norm post = context_.weights.post_attention_norm(layer);
  std::optional<behavior::Readout<float>> moved;
  if (!post.gain.empty()) moved = before_norm(layer, post, output);
  const auto probs = attention_probs(context_, layer, head_kv, readout_.positions());
  std::vector<float> values(size_t(probs.entries) * size_t(shape.head_dim));
  context_.cache.values(layer, head_kv, 0, values);
  behavior::make_features<float>({.layer = layer,
                                  .entries = probs.entries,
                                  .heads = shape.group(),
                                  .head_dim = shape.head_dim,
                                  .alpha = probs.alpha,
                                  .values = values,
                                  .output_projection = &output,
                                  .first_head = head_kv * shape.group()},
                                 moved ? *moved : readout_, out);
}

std::vector<double> BehaviorInputs::mask_costs(std::span<const Plan> masks) const {
  const ModelShape& shape = context_.cache.shape();
  behavior::MaskCosts<float> costs(int(masks.size()), objective_, p_);
  behavior::GroupFeatures<float> features;
  for (int row = 0; row < shape.n_rows(); ++row) {
    report_progress(context_, double(row) / shape.n_rows());
    make_features(row / shape.n_head_kv, row % shape.n_head_kv, features);
    Matrix keep = Matrix::Zero(Eigen::Index(masks.size()), features.entries());
    for (size_t m = 0; m < masks.size(); ++m) {
      for (const int32_t i : masks[m].rows[size_t(row)].keep) keep(Eigen::Index(m), i) = 1;
    }
    costs.add(features, keep, context_.threads);
  }
  return costs.costs();
}

size_t BehaviorInputs::feature_bytes(int layer, int head_kv) const {
  return behavior::feature_bytes<float>(context_.cache.length(layer, head_kv),
                                        context_.cache.shape().group(), readout_.positions(),
                                        rank_);
}

size_t BehaviorInputs::transient_bytes(int layer, int head_kv) const {
  const ModelShape& shape = context_.cache.shape();
  const auto d = size_t(shape.head_dim);
  const auto entries = size_t(context_.cache.length(layer, head_kv));
  const size_t rows = size_t(shape.group()) * size_t(readout_.lanes());
  const size_t output = size_t(shape.n_embd) * size_t(shape.n_head) * d;
  // Values, W_O, the heads' maps, head outputs.
  size_t floats = entries * d + output + d * size_t(rank_) * rows + rows * d;
  if (!context_.weights.post_attention_norm(layer).gain.empty()) {
    // A readout of the layer's own, and the attention outputs with a product on the way there.
    floats += size_t(readout_.lanes()) * size_t(shape.n_embd) * size_t(rank_ + 2);
  }
  return attention_probs_bytes(context_, layer, head_kv, readout_.positions()) +
         sizeof(float) * floats;
}

}  // namespace pith
