#include "policy/policies/behavior_inputs.h"

#include <algorithm>
#include <span>

#include "base/parallel.h"
#include "behavior/final_norm.h"
#include "behavior/logit_metric.h"
#include "behavior/mask_costs.h"
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
  const behavior::NormJacobian<float> norm(std::span(seen.residual).subspan(at * n_embd, n_embd),
                                           context_.weights.final_norm(),
                                           double(context_.weights.final_norm_eps()));
  for (int j = 0; j < topk; ++j) norm.pull_back({map.row(j).data(), n_embd});
  readout_.set(position,
               objective_ == Objective::kl ? map : behavior::quadratic_form(map, p, rank_));
}

void BehaviorInputs::make_features(int layer, int head_kv,
                                   behavior::GroupFeatures<float>& out) const {
  const ModelShape& shape = context_.cache.shape();
  const auto probs = attention_probs(context_, layer, head_kv, readout_.positions());
  std::vector<float> values(size_t(probs.entries) * size_t(shape.head_dim));
  context_.cache.values(layer, head_kv, 0, values);
  Matrix output(shape.n_embd, Eigen::Index{shape.n_head} * shape.head_dim);
  context_.weights.output_projection(layer, {output.data(), size_t(output.size())});
  behavior::make_features<float>({.layer = layer,
                                  .entries = probs.entries,
                                  .heads = shape.group(),
                                  .head_dim = shape.head_dim,
                                  .alpha = probs.alpha,
                                  .values = values,
                                  .output_projection = &output,
                                  .first_head = head_kv * shape.group()},
                                 readout_, out);
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
  const size_t floats = entries * d + output + d * size_t(rank_) * rows + rows * d;
  return attention_probs_bytes(context_, layer, head_kv, readout_.positions()) +
         sizeof(float) * floats;
}

}  // namespace pith
