#pragma once

#include <vector>

#include "support/synthetic.h"

namespace pith::test {

/// One layer with one KV head of size 2, read by one query head. The last position's attention is
/// proportional to `weights`; values are (x, 0). W_O and the unembedding are the identity. The
/// whole prompt asks as the last position does; the repeat and lookahead passes too, and the one
/// token of each takes `own` beside, with a value of 0.
Synthetic one_head(const std::vector<float>& weights, const std::vector<float>& x, float own = 0);

}  // namespace pith::test
