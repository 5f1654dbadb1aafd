#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace pith {

/// Positions of a prompt of `n` tokens whose queries stand for those to come: up to 128, evenly
/// from n/8 to n - 1, ascending.
std::vector<int32_t> future_positions(int32_t n);

/// Places in `observed` of the positions nearest to those `wanted`, the earlier one of two as near;
/// all lists ascending, each place once. Where all that is wanted was observed, its own places.
std::vector<int> nearest_places(std::span<const int32_t> observed, std::span<const int32_t> wanted);

}  // namespace pith
