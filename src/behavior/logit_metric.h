#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace pith::behavior {

/// The `count` tokens of the largest logits (all where there are fewer), best first; ties go to the
/// lower token.
template <class T>
std::vector<int32_t> top_tokens(std::span<const T> logits, int count);

/// Softmax over `tokens` alone: the distribution renormalised over them. [tokens.size()], sums
/// to 1.
template <class T>
std::vector<double> probabilities(std::span<const T> logits, std::span<const int32_t> tokens);

/// d logit / d (row of W_U . normed state) where logit = softcap tanh(scale * product / softcap);
/// without a soft cap where that is 0.
double logit_slope(double logit, double scale, double softcap);

/// KL(p || q) in nats, q the softmax after the logits of p moved by `shift`; both [K]:
/// log sum_j p_j exp(shift_j) - sum_j p_j shift_j. Exact to about 1e-16 for tiny shifts, finite for
/// large ones.
double kl_of_shift(std::span<const double> p, std::span<const double> shift);

}  // namespace pith::behavior
