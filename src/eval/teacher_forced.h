#pragma once

#include <span>
#include <vector>

#include "eval/rows.h"
#include "pith/pith.hpp"

namespace pith {

/// Positions of the continuation whose predictions count.
std::vector<size_t> scored_positions(const FidelityRow& row);

/// Logits [scored, n_vocab] of the scored positions: the session reads the continuation,
/// teacher-forced.
std::vector<float> scored_logits(Session& session, const FidelityRow& row);

/// Greedy continuation of `count` tokens, the first of which is given; with `stop` shorter at an
/// end token.
std::vector<int32_t> greedy_tokens(Session session, int32_t first, int count, bool stop);

/// KL(full || other) in nats of each of the positions that both hold [positions, n_vocab].
std::vector<double> kl_by_position(std::span<const float> full, std::span<const float> other,
                                   int n_vocab, int threads);

}  // namespace pith
