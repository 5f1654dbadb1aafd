#pragma once

#include <span>

namespace pith {

/// log sum_v exp(logits[v]) in double, relative to the maximum. There has to be a logit.
double log_sum_exp(std::span<const float> logits);

/// KL(P || Q) = sum_v P(v) (ln P(v) - ln Q(v)) in nats of two rows of logits [n_vocab], each with
/// its log_sum_exp. A token that P gives nothing counts nothing.
double kl_divergence(std::span<const float> p, double p_norm, std::span<const float> q,
                     double q_norm);

}  // namespace pith
