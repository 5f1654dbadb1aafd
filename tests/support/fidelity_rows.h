#pragma once

#include <string>

#include "eval/rows.h"

namespace pith::test {

/// A row of kind "text" whose tokens lie below `n_vocab` and of which every position counts.
inline FidelityRow arithmetic_row(const std::string& id, int context, int continuation, int seed,
                                  int n_vocab) {
  FidelityRow r;
  r.id = id;
  r.kind = "text";
  for (int i = 0; i < context; ++i) r.context.push_back((i * i + 7 * i + seed) % n_vocab);
  for (int i = 0; i < continuation; ++i) r.continuation.push_back((5 * i + seed) % n_vocab);
  r.score.assign(size_t(continuation), 1);
  return r;
}

}  // namespace pith::test
