#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "behavior/features.h"
#include "behavior/mask.h"
#include "policy/attention_probs.h"

namespace pith {

/// What the logit-shift estimate reads of a context: the readout of each scoring position, and on
/// demand the features of a (layer, KV head).
class BehaviorInputs {
 public:
  /// The last `positions` observed ones, their `topk` likeliest tokens; `rank` directions of the
  /// quadratic form, or the logit map itself with Objective::kl.
  BehaviorInputs(const PolicyContext& context, behavior::Objective objective, int positions,
                 int topk, int rank);

  /// Probabilities of the top tokens [positions, topk].
  const std::vector<double>& probabilities() const { return p_; }

  void make_features(int layer, int head_kv, behavior::GroupFeatures<float>& out) const;

  /// What each of `masks` costs, the mean over the scoring positions of the objective, in nats.
  std::vector<double> mask_costs(std::span<const Plan> masks) const;

  /// Bytes held by all positions' readouts, with what making them took beside them. The constructor
  /// throws Error(memory) where they exceed the context's scratch.
  size_t shared_bytes() const { return shared_bytes_; }

  /// Bytes that the features of a (layer, KV head) take, and those needed while they are made.
  size_t feature_bytes(int layer, int head_kv) const;
  size_t transient_bytes(int layer, int head_kv) const;

 private:
  void read_position(int position, int topk);
  /// What a layer's attention gives at the scoring positions, after W_O [positions, n_embd].
  behavior::RowMatrix<float> attention_output(int layer,
                                              const behavior::RowMatrix<float>& projection) const;
  /// The readout of what goes into a norm behind a layer's attention, found anew for each of its KV
  /// heads.
  behavior::Readout<float> before_norm(int layer, const Norm& norm,
                                       const behavior::RowMatrix<float>& projection) const;

  const PolicyContext& context_;
  behavior::Objective objective_;
  int rank_;
  size_t shared_bytes_;
  behavior::Readout<float> readout_;
  std::vector<double> p_;
};

}  // namespace pith
