#pragma once

#include <cmath>

namespace pith {

/// The largest power of two that divides `count`: numbers that hadamard() mixes.
constexpr int hadamard_block(int count) { return count & -count; }

/// Multiplies each block of hadamard_block(count) numbers by the orthonormal Hadamard matrix,
/// H_ij = (-1)^(number of ones in i & j) / sqrt(block), in place. Its own inverse, so that inner
/// products stay; a number far larger than the rest is spread over all, which is what rounding to
/// a few steps a block asks for.
inline void hadamard(float* x, int count) {
  const int block = hadamard_block(count);
  const float scale = 1 / std::sqrt(float(block));
  for (float* end = x + count; x < end; x += block) {
    for (int half = 1; half < block; half *= 2) {
      for (int i = 0; i < block; i += 2 * half) {
        for (int j = i; j < i + half; ++j) {
          const float a = x[j], b = x[j + half];
          x[j] = a + b;
          x[j + half] = a - b;
        }
      }
    }
    for (int i = 0; i < block; ++i) x[i] *= scale;
  }
}

}  // namespace pith
