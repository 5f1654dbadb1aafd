#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policy/policy.h"

namespace pith {

/// A policy and its scores of the cache at hand, from which masks are made.
struct MaskMaker {
  const Policy* policy = nullptr;
  const Scores* scores = nullptr;
};

/// Draws `count` eviction masks that keep exactly kept[m % kept.size()] entries, the protected ones
/// among them. Rounds over `kept` take turns: entries at random with equal shares for all (layer,
/// KV head); at random with shares that are log-normal (sigma 1); and two rounds of what a maker
/// (they take turns too) selects after each of its scores was multiplied by log-normal noise, sigma
/// uniform in [0, 2] for each mask. Without makers all are drawn at random. Mask m depends on
/// `seed`, m, `kept` and the makers only.
std::vector<Plan> draw_masks(const PolicyContext& context, std::span<const int64_t> kept,
                             std::span<const MaskMaker> makers, int count, uint64_t seed);

}  // namespace pith
