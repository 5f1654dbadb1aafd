#pragma once

#include <cstddef>
#include <vector>

#include "pith/policy.hpp"

namespace pith {

/// ||W_O v||_1 of every entry's value through the output projection of each query head of the
/// group, averaged over the group [length].
std::vector<float> projected_value_norms(const PolicyContext& context, int layer, int head_kv);

/// ||W_O v||_2 of every entry's value through the output projection of each query head of the
/// group [length, group].
std::vector<float> projected_value_lengths(const PolicyContext& context, int layer, int head_kv);

/// Working memory of either, its result counted.
size_t projected_value_norm_bytes(const PolicyContext& context, int layer, int head_kv);

/// ||v|| of every entry [length].
std::vector<float> value_norms(const PolicyContext& context, int layer, int head_kv);

}  // namespace pith
