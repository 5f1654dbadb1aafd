#pragma once

#include <cstddef>
#include <limits>

#include "base/simd.h"

namespace pith {

/// What numbers were rounded to.
struct ByteBlock {
  float scale = 0;                    ///< a number is about its byte times this
  simd::F32 sums = {}, squares = {};  ///< of the whole numbers, to be summed over lanes; exact
};

/// Rounds `count` numbers, whole vectors of them, to whole numbers of at most `steps` in size, the
/// largest to `steps` itself; writes these as bytes. What is too small to divide by becomes 0, and
/// what is no number one of them.
template <int count>
ByteBlock round_to_bytes(const float* x, float steps, std::byte* to) {
  simd::F32 most = {};
  for (int i = 0; i < count; i += simd::kWidth) {
    most = simd::max(most, simd::abs(simd::load(x + i)));
  }
  const float scale = simd::max_lane(most) / steps;
  const float inverse = scale >= std::numeric_limits<float>::min() ? 1 / scale : 0;
  const simd::F32 high = simd::broadcast(steps), low = -high;
  const simd::F32 wholes = simd::broadcast(simd::kWholes);
  ByteBlock out{.scale = scale};
  for (int i = 0; i < count; i += simd::kWidth) {
    const simd::F32 near = simd::min(simd::max(simd::load(x + i) * inverse, low), high);
    const simd::F32 shifted = near + wholes, whole = shifted - wholes;
    out.sums += whole;
    out.squares = simd::fma(whole, whole, out.squares);
    simd::store_bytes(to + i, (simd::I32)shifted);
  }
  return out;
}

}  // namespace pith
