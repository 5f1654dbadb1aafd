#pragma once

#include "model/weights.h"

namespace pith {

/// Seconds that the weight products of one step of n_tokens take alone (logits of the last token
/// only), the fastest of `repeats`: with the attention's time it splits a step into weights,
/// attention and rest.
double products_seconds(const ModelWeights& weights, int n_tokens, int threads, int repeats);

}  // namespace pith
