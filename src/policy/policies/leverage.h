#pragma once

#include <vector>

#include "policy/policy.h"

namespace pith {

/// Leverage of every entry's key among those of its KV head, x.(X^T X + jitter)^-1 x, of keys
/// without their rotation and less their mean.
Scores key_leverage(const PolicyContext& context);

/// Scores of each layer less their mean and over their standard deviation, both of all its KV
/// heads.
void standardize_layers(Scores& scores, const ModelShape& shape);

}  // namespace pith
