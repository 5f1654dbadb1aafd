#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace pith::test {

/// Normalised mean squared error |a - b|^2 / |b|^2.
double nmse(std::span<const float> a, std::span<const float> b);

/// Mean over rows of KL(softmax(b) || softmax(a)) in nats; rows of `width`.
double mean_kl(std::span<const float> a, std::span<const float> b, size_t width);

int argmax(std::span<const float> row);

/// Difference between the two largest numbers.
float top_gap(std::span<const float> row);

/// Seeded tokens in [first, n_vocab).
std::vector<int32_t> random_tokens(int count, int n_vocab, uint32_t seed, int first = 0);

}  // namespace pith::test
