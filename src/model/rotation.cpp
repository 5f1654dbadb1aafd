#include "model/rotation.h"

#include <ggml.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace pith {
namespace {

/// The pair that turns `turns` times over the trained context.
double pair_of_turns(const RopeConfig& rope, double turns) {
  return rope.n_dims * std::log(rope.n_ctx_orig / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(double(rope.freq_base)));
}

/// YaRN: how much of a pair's own frequency stays, the rest being the scaled one.
double own_share(const RopeConfig& rope, int pair) {
  if (rope.ext_factor == 0) return 0;
  const double low = std::max(0.0, std::floor(pair_of_turns(rope, double(rope.beta_fast))));
  const double high =
      std::min(rope.n_dims - 1.0, std::ceil(pair_of_turns(rope, double(rope.beta_slow))));
  const double ramp = (pair - low) / std::max(0.001, high - low);
  return (1 - std::clamp(ramp, 0.0, 1.0)) * double(rope.ext_factor);
}

}  // namespace

Rotation rotation_of(const RopeConfig& rope, std::span<const float> factors) {
  Rotation out;
  out.neighbours = (rope.type & GGML_ROPE_TYPE_NEOX) == 0;
  out.magnitude = rope.attn_factor;
  if (rope.ext_factor != 0) out.magnitude *= 1 - 0.1F * std::log(rope.freq_scale);
  for (int pair = 0; pair < rope.n_dims / 2; ++pair) {
    const double own = std::pow(double(rope.freq_base), -2.0 * pair / rope.n_dims) /
                       (factors.empty() ? 1.0 : double(factors[size_t(pair)]));
    const double share = own_share(rope, pair);
    out.frequency.push_back(float(own * (share + (1 - share) * double(rope.freq_scale))));
  }
  return out;
}

}  // namespace pith
